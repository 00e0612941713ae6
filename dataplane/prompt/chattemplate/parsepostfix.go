package chattemplate

import (
	"slices"
	"strconv"
	"strings"
)

func (p *exprParser) postfix(e expr) expr {
	for {
		switch t := p.cur(); {
		case t.is("."):
			e = p.dot(e)
		case t.is("["):
			e = p.subscript(e)
		case t.is("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

// dot parses an attribute, or an index as in a.0.
func (p *exprParser) dot(e expr) expr {
	line := p.next().line
	t := p.next()
	switch t.kind {
	case tokName:
		return &attrExpr{line: line, obj: e, name: t.text, plain: !isPyAttr(t.text)}
	case tokInt:
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			p.fail(t.line, "index out of range")
		}
		return &itemExpr{line: line, obj: e, arg: &constExpr{v: intValue(n)}}
	}
	p.fail(t.line, "expected name or number")
	return nil
}

// subscript parses [index] and [slice]; several indices are a tuple.
func (p *exprParser) subscript(e expr) expr {
	line := p.next().line
	var args []expr
	p.list("]", false, func() { args = append(args, p.subscribed(line)) })
	if len(args) != 1 {
		if slices.ContainsFunc(args, isSlice) {
			// Of a tuple, which nothing here can be subscripted with.
			p.gap(line, "slice among subscripts")
		}
		return &itemExpr{line: line, obj: e, arg: &tupleExpr{items: args}}
	}
	if s, ok := args[0].(*sliceExpr); ok {
		s.obj = e
		return s
	}
	return &itemExpr{line: line, obj: e, arg: args[0]}
}

func (p *exprParser) subscribed(line int) expr {
	s := &sliceExpr{line: line}
	if !p.cur().is(":") {
		if s.start = p.expression(true); !p.cur().is(":") {
			return s.start
		}
	}
	p.pos++
	bound := func() expr {
		if t := p.cur(); t.is(":") || t.is("]") || t.is(",") {
			return nil
		}
		return p.expression(true)
	}
	if s.stop = bound(); p.skipOp(":") {
		s.step = bound()
	}
	return s
}

func isSlice(e expr) bool {
	_, ok := e.(*sliceExpr)
	return ok
}

func (p *exprParser) call(e expr) expr {
	return &callExpr{line: p.cur().line, fn: e, args: p.arguments()}
}

func (p *exprParser) arguments() (a argExprs) {
	line := p.next().line
	p.list(")", true, func() {
		dyn, dkw := p.skipOp("*"), p.skipOp("**")
		named := p.cur().kind == tokName && p.peek().is("=")
		name := p.cur().text
		if named && !dyn && !dkw {
			p.pos += 2
		}
		x := p.expression(true)
		switch {
		case a.dkw != nil, dyn && a.dyn != nil, !dyn && !dkw && !named && (a.dyn != nil || a.kw != nil):
			p.fail(line, "invalid syntax for function call expression")
		case dyn:
			a.dyn = x
		case dkw:
			a.dkw = x
		case named:
			a.names, a.kw = append(a.names, name), append(a.kw, x)
		default:
			a.pos = append(a.pos, x)
		}
	})
	return a
}

// filters parses one or more filters, each with its bar.
func (p *exprParser) filters(e expr) expr {
	for p.skipOp("|") {
		e = p.filterCall(e)
	}
	return e
}

// filterCall parses a filter behind its bar.
func (p *exprParser) filterCall(e expr) *filterExpr {
	name, line := p.dotted()
	f := &filterExpr{line: line, x: e, name: name}
	if p.cur().is("(") {
		f.args = p.arguments()
	}
	if f.fn = filters[name]; f.fn == nil {
		p.gap(line, gapFilter+name)
	}
	p.namedInArgs(name, line, f.args)
	return f
}

func (p *exprParser) dotted() (name string, line int) {
	t := p.expectName()
	parts := []string{t.text}
	for p.skipOp(".") {
		parts = append(parts, p.expectName().text)
	}
	return strings.Join(parts, "."), t.line
}

// namedInArgs looks for tests and filters that are named by constants, as in map('upper') and
// selectattr('a', 'odd').
func (p *exprParser) namedInArgs(name string, line int, a argExprs) {
	at, inFilters := 0, false
	switch name {
	case "map":
		inFilters = true
	case "select", "reject":
	case "selectattr", "rejectattr":
		at = 1
	default:
		return
	}
	if at >= len(a.pos) {
		return
	}
	c, ok := a.pos[at].(*constExpr)
	if !ok || c.v.k != kString {
		return
	}
	switch {
	case inFilters && filters[c.v.s] == nil:
		p.gap(line, gapFilter+c.v.s)
	case !inFilters && tests[c.v.s] == nil:
		p.gap(line, gapTest+c.v.s)
	}
}

// test parses behind is. An argument may stand without parentheses, as in x is divisibleby 3.
func (p *exprParser) test(e expr) expr {
	p.pos++
	negated := p.skipName("not")
	name, line := p.dotted()
	t := &testExpr{line: line, x: e, name: name}
	switch c := p.cur(); {
	case c.is("("):
		t.args = p.arguments()
	case c.isName("is"):
		p.fail(c.line, "You cannot chain multiple tests with is")
	case c.isName("else"), c.isName("or"), c.isName("and"):
	case c.kind == tokName, c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, c.is("["), c.is("{"):
		t.args.pos = []expr{p.postfix(p.primary(false))}
	}
	if t.fn = tests[name]; t.fn == nil {
		p.gap(line, gapTest+name)
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
