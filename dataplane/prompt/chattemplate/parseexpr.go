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
func (p *exprParser) expression(cond bool) expr {
	p.enter()
	defer p.leave()
	mark := len(p.gaps)
	e := p.or()
	if !cond {
		return e
	}
	if p.cur().isName("if") {
		defer func() { p.branches(mark) }()
	}
	for p.skipName("if") {
		c := &condExpr{then: e, test: p.or()}
		if p.skipName("else") {
			c.other = p.expression(true)
		}
		e = c
	}
	return e
}

// or and the functions below parse one level of precedence each, the loosest first.
func (p *exprParser) or() expr {
	left := p.and()
	for p.skipName("or") {
		left = &logicExpr{true, left, p.and()}
	}
	return left
}

// and parses operands that are joined by the word.
func (p *exprParser) and() expr {
	left := p.not()
	for p.skipName("and") {
		left = &logicExpr{false, left, p.not()}
	}
	return left
}

// not binds looser than comparisons: not a == b is not (a == b).
func (p *exprParser) not() expr {
	if !p.skipName("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	return &notExpr{p.not()}
}

// compare parses a chain of comparisons, among them in and not in.
func (p *exprParser) compare() expr {
	line := p.cur().line
	first := p.binary(0)
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
		ops = append(ops, operand{op, p.binary(0)})
	}
	if ops == nil {
		return first
	}
	return &compareExpr{line: line, first: first, ops: ops}
}

// levels are the binary operators, the loosest first. Concatenation stands between them, in Jinja's
// order.
var levels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

// binary parses the operators of one level, from left to right; ** too, unlike in Python.
func (p *exprParser) binary(level int) expr {
	if level == len(levels) {
		return p.unary(true)
	}
	left := p.binary(level + 1)
	for t := p.cur(); t.kind == tokOp && slices.Contains(levels[level], t.text); t = p.cur() {
		p.pos++
		right := p.binary(level + 1)
		if t.text == "**" {
			p.gap(t.line, "operator **")
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
	return left
}

// unary parses signs. They bind tighter than filters: -1|abs is (-1)|abs.
func (p *exprParser) unary(withFilter bool) expr {
	p.enter()
	defer p.leave()
	t := p.cur()
	var e expr
	if t.is("-") || t.is("+") {
		p.pos++
		e = &unaryExpr{op: t.text[0], line: t.line, x: p.unary(false)}
	} else {
		e = p.primary(false)
	}
	e = p.postfix(e)
	for withFilter {
		switch t := p.cur(); {
		case t.is("|"):
			e = p.filters(e)
		case t.isName("is"):
			e = p.test(e)
		case t.is("("):
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

// primary parses a name or a literal. With ns, a name with an attribute is the target of an
// assignment.
func (p *exprParser) primary(ns bool) expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constExpr{v: boolValue(true)}
		case "false", "False":
			return &constExpr{v: boolValue(false)}
		case "none", "None":
			return &constExpr{v: noneValue}
		}
		name := &nameExpr{name: t.text, line: t.line}
		if ns && p.skipOp(".") {
			return &nsRef{line: t.line, ns: name, attr: p.expectName().text}
		}
		return name
	case tokString:
		var text strings.Builder
		text.WriteString(t.text)
		for p.cur().kind == tokString {
			text.WriteString(p.next().text)
		}
		return &constExpr{v: strValue(text.String())}
	case tokInt:
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			p.gap(t.line, "integer "+t.text)
		}
		return &constExpr{v: intValue(n)}
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.gap(t.line, "float "+t.text)
		}
		return &constExpr{v: floatValue(f)}
	}
	switch {
	case t.is("("):
		e := p.tuple(tupleRules{cond: true, empty: true})
		p.expectOp(")")
		return e
	case t.is("["):
		e := &listExpr{}
		p.list("]", true, func() { e.items = append(e.items, p.expression(true)) })
		return e
	case t.is("{"):
		e := &dictExpr{}
		p.list("}", true, func() {
			e.keys = append(e.keys, p.expression(true))
			p.expectOp(":")
			e.vals = append(e.vals, p.expression(true))
		})
		return e
	}
	p.fail(t.line, "unexpected "+t.describe())
	return nil
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
func (p *exprParser) tuple(r tupleRules) expr {
	var items []expr
	isTuple := false
	for {
		t := p.cur()
		if t.kind == tokVarEnd || t.kind == tokBlockEnd || t.is(")") || t.kind == tokName && slices.Contains(r.ends, t.text) {
			break
		}
		if r.names {
			items = append(items, p.primary(r.ns))
		} else {
			items = append(items, p.expression(r.cond))
		}
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	switch {
	case isTuple:
		return &tupleExpr{items: items}
	case len(items) == 1:
		return items[0]
	case !r.empty:
		p.unexpected("an expression")
	}
	return &tupleExpr{}
}

func (p *exprParser) target(ends []string, ns bool) expr {
	line := p.cur().line
	e := p.tuple(tupleRules{names: true, ns: ns, ends: ends})
	p.assignable(line, e)
	return e
}

// assignable marks names as stored, and refuses an expression that is not a target.
func (p *exprParser) assignable(line int, e expr) {
	switch e := e.(type) {
	case *nameExpr:
		e.store = true
	case *nsRef:
	case *tupleExpr:
		for _, item := range e.items {
			p.assignable(line, item)
		}
	default:
		p.fail(line, "cannot assign to this")
	}
}
