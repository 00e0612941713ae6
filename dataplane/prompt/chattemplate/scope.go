package chattemplate

import (
	"maps"
	"slices"
)

// Names are bound to values when a template is compiled, by the rules of jinja2/idtracking.py
// (3.1). A loop, a macro, a set block and so on have scopes of their own. At each entry, a name of
// a scope begins with the value of that name in the scope around it.

// loadKind is the source of a variable's first value when its scope is entered.
type loadKind uint8

const (
	loadParam   loadKind = iota // set by the statement that opens the scope
	loadContext                 // the request's value of this name
	loadAlias                   // an outer scope's value of this name
	loadMissing
)

// variable is one name of one scope.
type variable struct {
	name string
	fn   *funcInfo
	slot int // in the frames of fn
}

type load struct {
	kind loadKind
	from *variable // of loadAlias
}

// funcInfo is a function with frames of its own: the template, and each macro.
type funcInfo struct {
	parent *funcInfo
	slots  int
}

// symbols are the names of one scope. Branches of an if are analysed in copies, which share ids.
type symbols struct {
	parent *symbols
	fn     *funcInfo
	ids    map[string]*variable
	refs   map[string]*variable
	loads  map[*variable]load
	stores map[string]bool
	order  *[]*variable // in which the names were met, for a stable result
}

// newSymbols begins the analysis of a scope; parent is nil for the template itself.
func newSymbols(parent *symbols, fn *funcInfo) *symbols {
	return &symbols{
		parent: parent, fn: fn, ids: map[string]*variable{}, refs: map[string]*variable{}, loads: map[*variable]load{},
		stores: map[string]bool{}, order: new([]*variable),
	}
}

// define gives a name a variable of this scope.
func (sy *symbols) define(name string, l load) *variable {
	v := sy.ids[name]
	if v == nil {
		v = &variable{name: name, fn: sy.fn, slot: sy.fn.slots}
		sy.fn.slots++
		sy.ids[name] = v
		*sy.order = append(*sy.order, v)
	}
	sy.refs[name], sy.loads[v] = v, l
	return v
}

// find returns the variable of a name in this scope or one around it; nil if none has it.
func (sy *symbols) find(name string) *variable {
	for ; sy != nil; sy = sy.parent {
		if v := sy.refs[name]; v != nil {
			return v
		}
	}
	return nil
}

// param gives a name to the statement that opens the scope; it hides outer variables of that name.
func (sy *symbols) param(name string) *variable {
	sy.stores[name] = true
	return sy.define(name, load{kind: loadParam})
}

// store notes an assignment. The name begins with the value of the scope around, and is this
// scope's own from then on.
func (sy *symbols) store(name string) {
	sy.stores[name] = true
	if sy.refs[name] != nil {
		return
	}
	if outer := sy.parent.find(name); outer != nil {
		sy.define(name, load{loadAlias, outer})
		return
	}
	sy.define(name, load{kind: loadMissing})
}

// load notes a use of a name: if no scope has it, the request may.
func (sy *symbols) load(name string) {
	if sy.find(name) == nil {
		sy.define(name, load{kind: loadContext})
	}
}

// copy is for a branch, which may or may not run.
func (sy *symbols) copy() *symbols {
	c := *sy
	c.refs, c.loads, c.stores = maps.Clone(sy.refs), maps.Clone(sy.loads), maps.Clone(sy.stores)
	return &c
}

// merge takes over the names that the branches of an if found. A name that only some of them store
// begins with its outer value.
func (sy *symbols) merge(branches []*symbols) {
	fresh := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !sy.stores[name] {
				fresh[name] = true
			}
		}
	}
	for _, b := range branches {
		maps.Copy(sy.refs, b.refs)
		maps.Copy(sy.loads, b.loads)
		maps.Copy(sy.stores, b.stores)
	}
	for name := range fresh {
		l := load{kind: loadContext}
		if outer := sy.parent.find(name); outer != nil {
			l = load{loadAlias, outer}
		}
		sy.loads[sy.find(name)] = l
	}
}

// exprs notes the names of expressions in order.
func (sy *symbols) exprs(list ...expr) {
	for _, e := range list {
		walkExpr(e, func(e expr) {
			n, ok := e.(*nameExpr)
			switch {
			case !ok:
			case n.store:
				sy.store(n.name)
			default:
				sy.load(n.name)
			}
		})
	}
}

// params notes the names of a target as set by the statement itself.
func (sy *symbols) params(target expr) {
	walkExpr(target, func(e expr) {
		if n, ok := e.(*nameExpr); ok {
			sy.param(n.name)
		}
	})
}

// stmts notes the names that statements use in this scope; scopes inside of them are not looked
// into.
func (sy *symbols) stmts(list []stmt) {
	for _, st := range list {
		sy.stmt(st)
	}
}

// stmt notes the names that a statement reads or stores in its scope.
func (sy *symbols) stmt(st stmt) {
	switch st := st.(type) {
	case *outputStmt:
		sy.exprs(st.items...)
	case *forStmt:
		sy.exprs(st.iter)
	case *ifStmt:
		sy.branches(st)
	case *macroStmt:
		sy.store(st.name)
	case *callStmt:
		sy.exprs(st.call)
	case *filterStmt:
		sy.exprs(st.filter)
	case *setStmt:
		sy.exprs(st.value, st.target)
	case *setBlockStmt:
		sy.exprs(st.target)
	}
}

// branches notes the names of an if. An elif is, to Jinja, an if inside of the list of elifs, so
// they are nested here in the same way.
func (sy *symbols) branches(st *ifStmt) {
	if len(st.tests) == 0 { // replacement of a tag that is not supported
		sy.stmts(st.orelse)
		return
	}
	sy.exprs(st.tests[0])
	body, elifs, orelse := sy.copy(), sy.copy(), sy.copy()
	body.stmts(st.bodies[0])
	for i := 1; i < len(st.tests); i++ {
		elifs.exprs(st.tests[i])
		in, none, none2 := elifs.copy(), elifs.copy(), elifs.copy()
		in.stmts(st.bodies[i])
		elifs.merge([]*symbols{in, none, none2})
	}
	orelse.stmts(st.orelse)
	sy.merge([]*symbols{body, elifs, orelse})
}

// varRef locates a name's value: a slot of the frame that is hops functions out, or a value of the
// request.
type varRef struct {
	hops, slot int
	context    bool
}

// entry sets one variable when a scope is entered.
type entry struct {
	slot int
	kind loadKind
	from varRef // of loadAlias, and of loadContext
}

type scope []entry

// binder gives every name its location. It visits a template in the order of Jinja's code
// generator.
type binder struct {
	names []string // of the context
	gaps  []Gap
}

// context returns the index of a name of the request's context.
func (b *binder) context(name string) varRef {
	i := slices.Index(b.names, name)
	if i < 0 {
		i = len(b.names)
		b.names = append(b.names, name)
	}
	return varRef{slot: i, context: true}
}

// scope lists the variables to set on entry of a scope, after all of its names are known. Names
// that only the request sets need no variable.
func (b *binder) scope(sy *symbols) scope {
	var out scope
	for _, v := range *sy.order {
		l, ok := sy.loads[v]
		if !ok || l.kind == loadParam || l.kind == loadContext && !sy.stores[v.name] {
			continue
		}
		en := entry{slot: v.slot, kind: l.kind}
		switch l.kind {
		case loadAlias:
			en.from = b.locate(sy, l.from)
		case loadContext:
			en.from = b.context(v.name)
		}
		out = append(out, en)
	}
	return out
}

// locate returns the location of a variable as seen from a scope.
func (b *binder) locate(sy *symbols, v *variable) varRef {
	for at := sy; at != nil; at = at.parent {
		if at.ids[v.name] == v && at.loads[v].kind == loadContext && !at.stores[v.name] {
			return b.context(v.name)
		}
	}
	hops := 0
	for fn := sy.fn; fn != v.fn; fn = fn.parent {
		hops++
	}
	return varRef{hops: hops, slot: v.slot}
}

// exprs locates the names of expressions.
func (b *binder) exprs(sy *symbols, list ...expr) {
	for _, e := range list {
		walkExpr(e, func(e expr) {
			if n, ok := e.(*nameExpr); ok {
				sy.exprs(n) // a set block's filter is not seen by the analysis
				n.ref = b.locate(sy, sy.find(n.name))
			}
		})
	}
}
