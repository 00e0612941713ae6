package chattemplate

import (
	"slices"
	"strconv"
	"strings"
)

// exprParser parses expressions: literals and operators here, subscripts, calls, filters and tests
// in parsepostfix.go.
type exprParser struct{ tokenStream }

// expression parses one expression; a conditional one only where cond says so.
func (p *exprParser) expression(cond bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	mark := len(p.gaps)
	e, err := p.or()
	if err != nil || !cond {
		return e, err
	}
	if p.cur().isName("if") {
		defer func() { p.branches(mark) }()
	}
	for p.skipName("if") {
		c := &condExpr{then: e}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.other, err = p.expression(true); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, nil
}

// or and the functions below parse one level of precedence each, the loosest first.
func (p *exprParser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.skipName("or") {
		var right expr
		right, err = p.and()
		left = &orExpr{left, right}
	}
	return left, err
}

// and parses operands that are joined by the word.
func (p *exprParser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.skipName("and") {
		var right expr
		right, err = p.not()
		left = &andExpr{left, right}
	}
	return left, err
}

// not binds looser than comparisons: not a == b is not (a == b).
func (p *exprParser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.not()
	return &notExpr{x}, err
}

// compare parses a chain of comparisons, among them in and not in.
func (p *exprParser) compare() (expr, error) {
	line := p.cur().line
	first, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	var ops []operand
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = t.text
		case t.isName("in"):
			op = "in"
		case t.isName("not") && p.peek().isName("in"):
			op = "notin"
			p.pos++
		}
		if op == "" {
			break
		}
		p.pos++
		x, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		ops = append(ops, operand{op, x})
	}
	if ops == nil {
		return first, nil
	}
	return &compareExpr{line: line, first: first, ops: ops}, nil
}

// levels are the binary operators, the loosest first. Concatenation stands between them, in Jinja's
// order.
var levels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

// binary parses the operators of one level, from left to right; ** too, unlike in Python.
func (p *exprParser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.unary(true)
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	for t := p.cur(); t.kind == tokOp && slices.Contains(levels[level], t.text); t = p.cur() {
		p.pos++
		right, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		if t.text != "~" {
			left = &binExpr{op: t.text, line: t.line, left: left, right: right}
			continue
		}
		if c, ok := left.(*concatExpr); ok {
			c.items = append(c.items, right)
		} else {
			left = &concatExpr{items: []expr{left, right}}
		}
	}
	return left, nil
}

// unary parses signs. They bind tighter than filters: -1|abs is (-1)|abs.
func (p *exprParser) unary(withFilter bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	t := p.cur()
	var e expr
	var err error
	if t.is("-") || t.is("+") {
		p.pos++
		var x expr
		x, err = p.unary(false)
		e = &unaryExpr{op: t.text[0], line: t.line, x: x}
	} else {
		e, err = p.primary(false)
	}
	if err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !withFilter {
		return e, err
	}
	for err == nil {
		switch t := p.cur(); {
		case t.is("|"):
			e, err = p.filters(e)
		case t.isName("is"):
			e, err = p.test(e)
		case t.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

// primary parses a name or a literal. With ns, a name with an attribute is the target of an
// assignment.
func (p *exprParser) primary(ns bool) (expr, error) {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.pos++
		switch t.text {
		case "true", "True":
			return &constExpr{v: boolValue(true)}, nil
		case "false", "False":
			return &constExpr{v: boolValue(false)}, nil
		case "none", "None":
			return &constExpr{v: noneValue}, nil
		}
		name := &nameExpr{name: t.text, line: t.line}
		if ns && p.skipOp(".") {
			attr, err := p.expectName()
			return &nsRef{line: t.line, ns: name, attr: attr.text}, err
		}
		return name, nil
	case tokString:
		var text strings.Builder
		for p.cur().kind == tokString {
			text.WriteString(p.next().text)
		}
		return &constExpr{v: strValue(text.String())}, nil
	case tokInt:
		p.pos++
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			p.gap(t.line, "integer "+t.text)
		}
		return &constExpr{v: intValue(n)}, nil
	case tokFloat:
		p.pos++
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.gap(t.line, "float "+t.text)
		}
		return &constExpr{v: floatValue(f)}, nil
	}
	switch {
	case t.is("("):
		p.pos++
		e, err := p.tuple(tupleRules{cond: true, empty: true})
		if err != nil {
			return nil, err
		}
		return e, p.expectOp(")")
	case t.is("["):
		return p.list()
	case t.is("{"):
		return p.dict()
	}
	return nil, p.fail(t.line, "unexpected "+t.describe())
}

// tupleRules are the settings of Jinja's parse_tuple.
type tupleRules struct {
	cond  bool     // conditional expressions are allowed
	empty bool     // () is a tuple
	names bool     // only names and literals, for targets
	ns    bool     // ns.attr is allowed among them
	ends  []string // words that end it
}

// tuple parses expressions parted by commas: a single one without a comma is itself.
func (p *exprParser) tuple(r tupleRules) (expr, error) {
	var items []expr
	isTuple := false
	for {
		t := p.cur()
		if t.kind == tokVarEnd || t.kind == tokBlockEnd || t.is(")") || t.kind == tokName && slices.Contains(r.ends, t.text) {
			break
		}
		var e expr
		var err error
		if r.names {
			e, err = p.primary(r.ns)
		} else {
			e, err = p.expression(r.cond)
		}
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	switch {
	case isTuple:
		return &tupleExpr{items: items}, nil
	case len(items) == 1:
		return items[0], nil
	case !r.empty:
		return nil, p.unexpected("an expression")
	}
	return &tupleExpr{}, nil
}

// target parses the target of an assignment.
func (p *exprParser) target(ends []string, ns bool) (expr, error) {
	line := p.cur().line
	e, err := p.tuple(tupleRules{names: true, ns: ns, ends: ends})
	if err != nil {
		return nil, err
	}
	return e, p.assignable(line, e)
}

// assignable marks names as stored, and refuses an expression that is not a target.
func (p *exprParser) assignable(line int, e expr) error {
	switch e := e.(type) {
	case *nameExpr:
		e.store = true
		return nil
	case *nsRef:
		return nil
	case *tupleExpr:
		for _, item := range e.items {
			if err := p.assignable(line, item); err != nil {
				return err
			}
		}
		return nil
	}
	return p.fail(line, "cannot assign to this")
}

// list parses behind a [.
func (p *exprParser) list() (expr, error) {
	p.pos++
	e := &listExpr{}
	for !p.cur().is("]") {
		if e.items != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.cur().is("]") {
				break
			}
		}
		x, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		e.items = append(e.items, x)
	}
	p.pos++
	return e, nil
}

// dict parses behind a {.
func (p *exprParser) dict() (expr, error) {
	p.pos++
	e := &dictExpr{}
	for !p.cur().is("}") {
		if e.keys != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.cur().is("}") {
				break
			}
		}
		k, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		e.keys, e.vals = append(e.keys, k), append(e.vals, v)
	}
	p.pos++
	return e, nil
}
