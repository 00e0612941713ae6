package chattemplate

// stmts locates all names in a list of statements.
func (b *binder) stmts(list []stmt, sy *symbols) {
	for _, st := range list {
		b.stmt(st, sy)
	}
}

// stmt binds the names of one statement. A statement that opens a scope analyses it first, since a
// name may be stored behind its first use.
func (b *binder) stmt(st stmt, sy *symbols) {
	switch st := st.(type) {
	case *outputStmt:
		b.exprs(sy, st.items...)
	case *ifStmt:
		b.exprs(sy, st.tests...)
		for _, body := range st.bodies {
			b.stmts(body, sy)
		}
		b.stmts(st.orelse, sy)
	case *setStmt:
		b.exprs(sy, st.value, st.target)
	case *forStmt:
		b.loop(st, sy)
	case *macroStmt:
		b.macro(st, sy)
		b.exprs(sy, st.target)
	case *callStmt:
		b.macro(st.call.caller, sy)
		b.exprs(sy, st.call)
	case *genStmt:
		b.macro(st.body, sy)
	case *filterStmt:
		in := newSymbols(sy, sy.fn)
		in.stmts(st.body)
		in.exprs(st.filter)
		st.scope = b.scope(in)
		b.stmts(st.body, in)
		b.exprs(in, st.filter)
	case *setBlockStmt:
		in := newSymbols(sy, sy.fn)
		in.stmts(st.body)
		st.scope = b.scope(in)
		b.stmts(st.body, in)
		b.exprs(sy, st.target)
		if st.filter != nil {
			b.exprs(in, st.filter)
		}
	}
}

// loopFrame holds the scopes of a loop.
type loopFrame struct {
	body, test, orelse scope
	// testTarget is the loop's target in the scope of its filter, which runs ahead of the body.
	testTarget expr
	loopSlot   int // of the variable loop; -1 if the body does not use it
}

// loop locates the names of a loop: the iterated expression is outside, and body, filter and else
// have scopes of their own.
func (b *binder) loop(st *forStmt, sy *symbols) {
	fr := &st.frame
	body, orelse := newSymbols(sy, sy.fn), newSymbols(sy, sy.fn)
	fr.loopSlot = -1
	if loads(st.body, "loop") {
		fr.loopSlot = body.param("loop").slot
	}
	body.params(st.target)
	body.stmts(st.body)
	orelse.stmts(st.orelse)
	if st.test != nil {
		test := newSymbols(sy, sy.fn)
		test.params(st.target)
		test.exprs(st.test)
		fr.testTarget = cloneTarget(st.target)
		b.exprs(test, fr.testTarget)
		b.exprs(test, st.test)
		fr.test = b.scope(test)
	}
	b.refuseLoop(st)
	b.exprs(sy, st.iter)
	fr.body = b.scope(body)
	b.exprs(body, st.target)
	b.stmts(st.body, body)
	fr.orelse = b.scope(orelse)
	b.stmts(st.orelse, orelse)
}

// refuseLoop notes an assignment to loop, which Jinja does not compile.
func (b *binder) refuseLoop(st *forStmt) {
	walkStmts([]stmt{st}, func(e expr) {
		if n, ok := e.(*nameExpr); ok && n.store && n.name == "loop" {
			b.gaps = append(b.gaps, Gap{n.line, "assignment to loop"})
		}
	})
}

func cloneTarget(e expr) expr {
	switch e := e.(type) {
	case *nameExpr:
		c := *e
		return &c
	case *tupleExpr:
		c := &tupleExpr{}
		for _, item := range e.items {
			c.items = append(c.items, cloneTarget(item))
		}
		return c
	}
	return e
}

// macroFunc holds the frame layout of a macro.
type macroFunc struct {
	info   *funcInfo
	scope  scope
	slots  []int // of the parameters
	caller int   // where it lies, if the body uses it; -1 if not
}

// macro locates the names in a macro's body. Its frame is its own, and it sees the
// variables around it as they are when it is called.
func (b *binder) macro(st *macroStmt, sy *symbols) {
	fn := &funcInfo{parent: sy.fn}
	in := newSymbols(sy, fn)
	f := &st.fn
	f.info, f.caller = fn, -1
	named := map[string]bool{}
	for _, p := range st.params {
		named[p.name] = true
		f.slots = append(f.slots, in.param(p.name).slot)
	}
	for _, name := range []string{"caller", "kwargs", "varargs"} {
		switch {
		case !loads(st.body, name):
		case name == "caller" && !named[name]:
			f.caller = in.param(name).slot
		case name == "caller" || !named[name]:
			b.gaps = append(b.gaps, Gap{st.line, "name " + name + " in a macro"})
		}
	}
	in.exprs(st.defaults...)
	in.stmts(st.body)
	f.scope = b.scope(in)
	for _, p := range st.params {
		b.exprs(in, p)
	}
	b.exprs(in, st.defaults...)
	b.stmts(st.body, in)
}
