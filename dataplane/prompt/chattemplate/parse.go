package chattemplate

import "slices"

// parser builds the tree of a template as jinja2/parser.py (3.1) does: statements here, expressions
// in exprParser. Its functions return any tree behind an error, which the stream keeps.
type parser struct{ exprParser }

// parse returns the statements of a template, and its constructs that are not rendered here.
func parse(src string) ([]stmt, []Gap, error) {
	tokens, gaps, err := lex(src)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{exprParser{tokenStream{tokens: tokens, gaps: gaps}}}
	body := p.statements(nil)
	return body, p.gaps, p.err
}

// statements parses up to a tag named in ends, which stays the current token; without
// ends, up to the end of the template.
func (p *parser) statements(ends []string) (body []stmt) {
	p.enter()
	defer p.leave()
	var data []expr
	flush := func() {
		if data != nil {
			body = append(body, &outputStmt{items: data})
			data = nil
		}
	}
	for {
		t := p.cur()
		switch t.kind {
		case tokEOF:
			if ends != nil {
				p.fail(t.line, "unexpected end of template, awaited "+ends[len(ends)-1])
			}
			flush()
			return body
		case tokData:
			p.pos++
			data = append(data, &constExpr{v: strValue(t.text)})
		case tokVarBegin:
			p.pos++
			data = append(data, p.tuple(tupleRules{cond: true}))
			p.expectEnd(tokVarEnd)
		default: // tokBlockBegin
			flush()
			p.pos++
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return body
			}
			if st := p.statement(); st != nil {
				body = append(body, st)
			}
			p.expectEnd(tokBlockEnd)
		}
	}
}

// block parses the end of an opening tag and the statements up to one of ends. It consumes and
// returns the name of that tag.
func (p *parser) block(ends ...string) ([]stmt, string) {
	p.skipOp(":") // for Python compatibility, says Jinja
	p.expectEnd(tokBlockEnd)
	body := p.statements(ends)
	return body, p.next().text
}

func (p *parser) body(end string) []stmt {
	body, _ := p.block(end)
	return body
}

func (p *parser) statement() stmt {
	t := p.expectName()
	switch t.text {
	case "for":
		return p.forLoop(t.line)
	case "if":
		return p.ifElse()
	case "set":
		return p.set(t.line)
	case "macro":
		return p.macro(t.line)
	case "call":
		return p.callBlock(t.line)
	case "filter":
		return p.filterBlock()
	case "generation":
		return &genStmt{body: &macroStmt{line: t.line, body: p.body("endgeneration")}}
	case "break":
		return &jumpStmt{ctlBreak}
	case "continue":
		return &jumpStmt{ctlContinue}
	case "include", "import", "from", "extends", "print":
		p.skipTag(t)
		return nil
	case "block", "autoescape", "with":
		p.skipTag(t)
		st := &ifStmt{orelse: p.body("end" + t.text)}
		p.skipName(p.cur().text) // a block may repeat its name
		return st
	}
	p.fail(t.line, "unknown tag "+t.text)
	return nil
}

func (p *parser) skipTag(t token) {
	p.gap(t.line, "tag "+t.text)
	for p.cur().kind != tokBlockEnd && p.cur().kind != tokEOF {
		p.pos++
	}
}

// forLoop parses behind for. The iterated expression takes no conditional: its if would be the
// loop's filter.
func (p *parser) forLoop(line int) stmt {
	st := &forStmt{line: line, target: p.target([]string{"in"}, false)}
	if !p.skipName("in") {
		p.unexpected("in")
	}
	st.iter = p.tuple(tupleRules{ends: []string{"recursive"}})
	if p.skipName("if") {
		st.test = p.expression(true)
	}
	if p.skipName("recursive") {
		p.gap(line, "recursive loop")
	}
	body, end := p.block("else", "endfor")
	if st.body = body; end == "else" {
		st.orelse = p.body("endfor")
	}
	return st
}

func (p *parser) ifElse() stmt {
	mark := len(p.gaps)
	defer func() { p.branches(mark) }()
	st := &ifStmt{}
	for end := "elif"; end == "elif"; {
		var body []stmt
		test := p.tuple(tupleRules{})
		body, end = p.block("elif", "else", "endif")
		st.tests, st.bodies = append(st.tests, test), append(st.bodies, body)
		if end == "else" {
			st.orelse = p.body("endif")
		}
	}
	return st
}

// set parses an assignment, or with no = a block with the text to assign.
func (p *parser) set(line int) stmt {
	target := p.target(nil, true)
	if p.skipOp("=") {
		return &setStmt{line: line, target: target, value: p.tuple(tupleRules{cond: true})}
	}
	st := &setBlockStmt{line: line, target: target}
	if p.cur().is("|") {
		st.filter, _ = p.filters(nil).(*filterExpr)
	}
	st.body = p.body("endset")
	return st
}

func (p *parser) macro(line int) stmt {
	name := p.expectName()
	st := &macroStmt{name: name.text, line: line, target: &nameExpr{name: name.text, line: line, store: true}}
	p.signature(st)
	st.body = p.body("endmacro")
	return st
}

func (p *parser) signature(st *macroStmt) {
	p.expectOp("(")
	p.list(")", false, func() {
		t := p.expectName()
		st.params = append(st.params, &nameExpr{name: t.text, line: t.line, store: true})
		if p.skipOp("=") {
			st.defaults = append(st.defaults, p.expression(true))
		} else if st.defaults != nil {
			p.fail(t.line, "non-default argument follows default argument")
		}
	})
}

// callBlock parses behind call: the parameters of the body, if any, and then the call.
func (p *parser) callBlock(line int) stmt {
	body := &macroStmt{name: "caller", line: line}
	if p.cur().is("(") {
		p.signature(body)
	}
	call, ok := p.expression(true).(*callExpr)
	if !ok {
		p.fail(line, "expected call")
		return nil
	}
	call.caller = body
	body.body = p.body("endcall")
	return &callStmt{call: call}
}

// filterBlock parses behind filter. The first filter stands without its bar.
func (p *parser) filterBlock() stmt {
	st := &filterStmt{}
	st.filter, _ = p.filters(p.filterCall(nil)).(*filterExpr)
	st.body = p.body("endfilter")
	return st
}
