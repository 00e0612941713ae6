package chattemplate

// expr is an expression. eval never fails: the state keeps the first error, and the value is then
// undefined. Statements check the state's error before they go on.
type expr interface {
	eval(s *state) value
}

type stmt interface {
	exec(s *state) ctl
}

// ctl is the way in which execution continues after a statement.
type ctl uint8

const (
	ctlNext ctl = iota
	ctlBreak
	ctlContinue
	ctlStop // an error is in the state
)

type (
	nameExpr struct {
		name  string
		line  int
		store bool
		ref   varRef
	}
	constExpr struct{ v value }
	tupleExpr struct{ items []expr }
	listExpr  struct{ items []expr }
	dictExpr  struct{ keys, vals []expr }
	condExpr  struct{ test, then, other expr } // other is nil without else
	logicExpr struct {                         // left or right if or is set, else left and right
		or          bool
		left, right expr
	}
	notExpr   struct{ x expr }
	unaryExpr struct {
		op   byte
		line int
		x    expr
	}
	binExpr struct {
		op          string
		line        int
		left, right expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		line  int
		first expr
		ops   []operand
	}
	operand struct {
		op string // in and not in are "in" and "notin"
		x  expr
	}
	attrExpr struct {
		line int
		obj  expr
		name string
		// plain: no Python type here has an attribute of this name, so a dict is asked for its key
		// at once.
		plain bool
	}
	itemExpr struct {
		line     int
		obj, arg expr
	}
	sliceExpr struct {
		line                   int
		obj, start, stop, step expr // the last three may be nil
	}
	callExpr struct {
		line int
		fn   expr
		args argExprs
		// caller is the body of a call block; nil elsewhere.
		caller *macroStmt
	}
	filterExpr struct {
		line int
		x    expr // nil: the text of the block around it
		name string
		args argExprs
		fn   filterFunc
	}
	testExpr struct {
		line int
		x    expr
		name string
		args argExprs
		fn   testFunc
	}
	// argExprs are the arguments of a call, a filter or a test.
	argExprs struct {
		pos      []expr
		names    []string // of kw
		kw       []expr
		dyn, dkw expr // *x and **x, or nil
	}
)

type (
	outputStmt struct{ items []expr }
	forStmt    struct {
		line         int
		target, iter expr
		test         expr // nil without a filter
		body, orelse []stmt
		frame        loopFrame
	}
	ifStmt struct {
		tests  []expr // if and elif
		bodies [][]stmt
		orelse []stmt
	}
	// macroStmt is a macro, the body of a call block, or of a generation block.
	macroStmt struct {
		name     string
		line     int
		params   []*nameExpr
		defaults []expr // of the last params
		body     []stmt
		target   *nameExpr // the name of a macro; nil for a block
		fn       macroFunc
	}
	callStmt   struct{ call *callExpr }
	filterStmt struct {
		filter *filterExpr
		body   []stmt
		scope  scope
	}
	setStmt struct {
		line          int
		target, value expr
	}
	setBlockStmt struct {
		line   int
		target expr
		filter *filterExpr // nil without one
		body   []stmt
		scope  scope
	}
	// genStmt is {% generation %}: its text is output as it is, its scope is that of a macro.
	genStmt  struct{ body *macroStmt }
	jumpStmt struct{ to ctl } // break and continue (jinja2.ext.loopcontrols)
)

// nsRef is ns.attr as the target of an assignment.
type nsRef struct {
	line int
	ns   *nameExpr
	attr string
}

// walkExpr calls visit for an expression and all below it, in the order in which Jinja's visitors
// meet them.
func walkExpr(e expr, visit func(expr)) {
	if e == nil {
		return
	}
	visit(e)
	for _, child := range subExprs(e) {
		walkExpr(child, visit)
	}
}

// subExprs returns the expressions directly below e. Entries may be nil.
func subExprs(e expr) []expr {
	switch e := e.(type) {
	case *tupleExpr:
		return e.items
	case *listExpr:
		return e.items
	case *dictExpr:
		var out []expr
		for i := range e.keys {
			out = append(out, e.keys[i], e.vals[i])
		}
		return out
	case *condExpr:
		return []expr{e.test, e.then, e.other}
	case *logicExpr:
		return []expr{e.left, e.right}
	case *notExpr:
		return []expr{e.x}
	case *unaryExpr:
		return []expr{e.x}
	case *binExpr:
		return []expr{e.left, e.right}
	case *concatExpr:
		return e.items
	case *compareExpr:
		out := []expr{e.first}
		for _, op := range e.ops {
			out = append(out, op.x)
		}
		return out
	case *attrExpr:
		return []expr{e.obj}
	case *itemExpr:
		return []expr{e.obj, e.arg}
	case *sliceExpr:
		return []expr{e.obj, e.start, e.stop, e.step}
	case *callExpr:
		return e.args.append([]expr{e.fn})
	case *filterExpr:
		return e.args.append([]expr{e.x})
	case *testExpr:
		return e.args.append([]expr{e.x})
	case *nsRef:
		return []expr{e.ns}
	}
	return nil
}

func (a *argExprs) append(list []expr) []expr {
	list = append(append(list, a.pos...), a.kw...)
	return append(list, a.dyn, a.dkw)
}

// parts returns the expressions and the bodies directly in a statement. A macro's parameters are
// among its expressions.
func parts(st stmt) (exprs []expr, bodies [][]stmt) {
	switch st := st.(type) {
	case *outputStmt:
		return st.items, nil
	case *forStmt:
		return []expr{st.target, st.iter, st.test}, [][]stmt{st.body, st.orelse}
	case *ifStmt:
		return st.tests, append(append([][]stmt{}, st.bodies...), st.orelse)
	case *macroStmt:
		for _, p := range st.params {
			exprs = append(exprs, p)
		}
		return append(exprs, st.defaults...), [][]stmt{st.body}
	case *callStmt:
		exprs, bodies = parts(st.call.caller)
		return append([]expr{st.call}, exprs...), bodies
	case *filterStmt:
		return []expr{st.filter}, [][]stmt{st.body}
	case *setStmt:
		return []expr{st.target, st.value}, nil
	case *setBlockStmt:
		exprs = []expr{st.target}
		if st.filter != nil {
			exprs = append(exprs, st.filter)
		}
		return exprs, [][]stmt{st.body}
	case *genStmt:
		return nil, [][]stmt{st.body.body}
	}
	return nil, nil
}

// walkStmts calls visit for every expression in a list of statements, however deep.
func walkStmts(list []stmt, visit func(expr)) {
	for _, st := range list {
		exprs, bodies := parts(st)
		for _, e := range exprs {
			walkExpr(e, visit)
		}
		for _, body := range bodies {
			walkStmts(body, visit)
		}
	}
}

// loads reports whether a name is read anywhere in a list of statements.
func loads(list []stmt, name string) bool {
	found := false
	walkStmts(list, func(e expr) {
		if n, ok := e.(*nameExpr); ok && !n.store && n.name == name {
			found = true
		}
	})
	return found
}
