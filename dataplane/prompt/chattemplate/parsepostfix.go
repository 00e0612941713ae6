package chattemplate

import (
	"slices"
	"strconv"
	"strings"
)

// postfix parses subscripts and calls behind an expression.
func (p *exprParser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch t := p.cur(); {
		case t.is("."):
			e, err = p.dot(e)
		case t.is("["):
			e, err = p.subscript(e)
		case t.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// dot parses an attribute, or an index as in a.0.
func (p *exprParser) dot(e expr) (expr, error) {
	line := p.next().line
	t := p.next()
	switch t.kind {
	case tokName:
		return &attrExpr{line: line, obj: e, name: t.text, plain: !isPyAttr(t.text)}, nil
	case tokInt:
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			return nil, p.fail(t.line, "index out of range")
		}
		return &itemExpr{line: line, obj: e, arg: &constExpr{v: intValue(n)}}, nil
	}
	return nil, p.fail(t.line, "expected name or number")
}

// subscript parses [index] and [slice]; several indices are a tuple.
func (p *exprParser) subscript(e expr) (expr, error) {
	line := p.next().line
	var args []expr
	for !p.cur().is("]") {
		if args != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		x, err := p.subscribed(line)
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	p.pos++
	if len(args) != 1 {
		if slices.ContainsFunc(args, isSlice) {
			// Of a tuple, which nothing here can be subscripted with.
			p.gap(line, "slice among subscripts")
		}
		return &itemExpr{line: line, obj: e, arg: &tupleExpr{items: args}}, nil
	}
	if s, ok := args[0].(*sliceExpr); ok {
		s.obj = e
		return s, nil
	}
	return &itemExpr{line: line, obj: e, arg: args[0]}, nil
}

// subscribed parses one subscript or slice.
func (p *exprParser) subscribed(line int) (expr, error) {
	s := &sliceExpr{line: line}
	var err error
	if !p.cur().is(":") {
		if s.start, err = p.expression(true); err != nil || !p.cur().is(":") {
			return s.start, err
		}
	}
	p.pos++
	ends := func() bool { return p.cur().is("]") || p.cur().is(",") }
	if !p.cur().is(":") && !ends() {
		if s.stop, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	if p.skipOp(":") && !ends() {
		if s.step, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// isSlice reports whether a subscript is a slice.
func isSlice(e expr) bool {
	_, ok := e.(*sliceExpr)
	return ok
}

// call parses the arguments of a call.
func (p *exprParser) call(e expr) (expr, error) {
	line := p.cur().line
	args, err := p.arguments()
	return &callExpr{line: line, fn: e, args: args}, err
}

// arguments parses the arguments of a call in parentheses.
func (p *exprParser) arguments() (argExprs, error) {
	line := p.next().line
	var a argExprs
	invalid := p.fail(line, "invalid syntax for function call expression")
	for first := true; !p.cur().is(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.cur().is(")") {
				break
			}
		}
		dyn, dkw := p.skipOp("*"), p.skipOp("**")
		named := p.cur().kind == tokName && p.peek().is("=")
		name := p.cur().text
		if named && !dyn && !dkw {
			p.pos += 2
		}
		x, err := p.expression(true)
		if err != nil {
			return a, err
		}
		switch {
		case a.dkw != nil, dyn && a.dyn != nil:
			return a, invalid
		case dyn:
			a.dyn = x
		case dkw:
			a.dkw = x
		case named:
			a.names, a.kw = append(a.names, name), append(a.kw, x)
		case a.dyn != nil, a.kw != nil:
			return a, invalid
		default:
			a.pos = append(a.pos, x)
		}
	}
	p.pos++
	return a, nil
}

// filters parses one or more filters, each with its bar.
func (p *exprParser) filters(e expr) (expr, error) {
	for p.skipOp("|") {
		f, err := p.filterCall(e)
		if err != nil {
			return nil, err
		}
		e = f
	}
	return e, nil
}

// filterCall parses a filter behind its bar.
func (p *exprParser) filterCall(e expr) (*filterExpr, error) {
	name, line, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{line: line, x: e, name: name}
	if p.cur().is("(") {
		if f.args, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	if f.fn = filters[name]; f.fn == nil {
		p.gap(line, gapFilter+name)
	}
	p.namedInArgs(name, line, f.args)
	return f, nil
}

// dotted parses the name of a filter or a test.
func (p *exprParser) dotted() (name string, line int, err error) {
	t, err := p.expectName()
	if err != nil {
		return "", 0, err
	}
	parts := []string{t.text}
	for p.skipOp(".") {
		next, err := p.expectName()
		if err != nil {
			return "", 0, err
		}
		parts = append(parts, next.text)
	}
	return strings.Join(parts, "."), t.line, nil
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
func (p *exprParser) test(e expr) (expr, error) {
	p.pos++
	negated := p.skipName("not")
	name, line, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{line: line, x: e, name: name}
	switch c := p.cur(); {
	case c.is("("):
		t.args, err = p.arguments()
	case c.isName("is"):
		return nil, p.fail(c.line, "You cannot chain multiple tests with is")
	case c.isName("else"), c.isName("or"), c.isName("and"):
	case c.kind == tokName, c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, c.is("["), c.is("{"):
		var arg expr
		if arg, err = p.primary(false); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if t.fn = tests[name]; t.fn == nil {
		p.gap(line, gapTest+name)
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}
