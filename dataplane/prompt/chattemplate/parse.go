package chattemplate

import "slices"

// parser builds the tree of a template as jinja2/parser.py (3.1) does: statements here, expressions
// in exprParser.
type parser struct{ exprParser }

// parse returns the statements of a template, and its constructs that are not rendered here.
func parse(src string) ([]stmt, []Gap, error) {
	tokens, gaps, err := lex(src)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{exprParser{tokenStream{tokens: tokens, gaps: gaps}}}
	body, err := p.statements(nil)
	if err != nil {
		return nil, nil, err
	}
	return body, p.gaps, nil
}

// statements parses up to a tag named in ends, which stays the current token; without
// ends, up to the end of the template.
func (p *parser) statements(ends []string) ([]stmt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var body []stmt
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
				return nil, p.fail(t.line, "unexpected end of template, awaited "+ends[len(ends)-1])
			}
			flush()
			return body, nil
		case tokData:
			p.pos++
			data = append(data, &constExpr{v: strValue(t.text)})
		case tokVarBegin:
			p.pos++
			e, err := p.tuple(tupleRules{cond: true})
			if err != nil {
				return nil, err
			}
			if err := p.expectEnd(tokVarEnd); err != nil {
				return nil, err
			}
			data = append(data, e)
		default: // tokBlockBegin
			flush()
			p.pos++
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return body, nil
			}
			st, err := p.statement()
			if err != nil {
				return nil, err
			}
			if st != nil {
				body = append(body, st)
			}
			if err := p.expectEnd(tokBlockEnd); err != nil {
				return nil, err
			}
		}
	}
}

// block parses the end of an opening tag and the statements up to one of ends. It consumes and
// returns the name of that tag.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	p.skipOp(":") // for Python compatibility, says Jinja
	if err := p.expectEnd(tokBlockEnd); err != nil {
		return nil, "", err
	}
	body, err := p.statements(ends)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

// statement parses one tag behind its {%.
func (p *parser) statement() (stmt, error) {
	t, err := p.expectName()
	if err != nil {
		return nil, err
	}
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
	case "with":
		return p.with()
	case "print":
		return p.printTag()
	case "generation":
		body, _, err := p.block("endgeneration")
		return &genStmt{body: &macroStmt{line: t.line, body: body}}, err
	case "break":
		return &breakStmt{}, nil
	case "continue":
		return &continueStmt{}, nil
	case "include", "import", "from", "extends":
		p.gap(t.line, "tag "+t.text)
		for p.cur().kind != tokBlockEnd && p.cur().kind != tokEOF {
			p.pos++
		}
		return nil, nil
	case "block", "autoescape":
		p.gap(t.line, "tag "+t.text)
		for p.cur().kind != tokBlockEnd && p.cur().kind != tokEOF {
			p.pos++
		}
		body, _, err := p.block("end" + t.text)
		p.skipName(p.cur().text) // a block may repeat its name
		return &ifStmt{orelse: body}, err
	}
	return nil, p.fail(t.line, "unknown tag "+t.text)
}

// forLoop parses behind for. The iterated expression takes no conditional: its if would be the
// loop's filter.
func (p *parser) forLoop(line int) (stmt, error) {
	st := &forStmt{line: line}
	var err error
	if st.target, err = p.target([]string{"in"}, false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.unexpected("in")
	}
	if st.iter, err = p.tuple(tupleRules{ends: []string{"recursive"}}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if st.test, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	if p.skipName("recursive") {
		p.gap(line, "recursive loop")
	}
	body, end, err := p.block("else", "endfor")
	if err != nil {
		return nil, err
	}
	st.body = body
	if end == "else" {
		st.orelse, _, err = p.block("endfor")
	}
	return st, err
}

// ifElse parses behind if, up to endif.
func (p *parser) ifElse() (stmt, error) {
	mark := len(p.gaps)
	defer func() { p.branches(mark) }()
	st := &ifStmt{}
	for {
		test, err := p.tuple(tupleRules{})
		if err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		st.tests, st.bodies = append(st.tests, test), append(st.bodies, body)
		switch end {
		case "else":
			st.orelse, _, err = p.block("endif")
			return st, err
		case "endif":
			return st, nil
		}
	}
}

// set parses an assignment, or with no = a block with the text to assign.
func (p *parser) set(line int) (stmt, error) {
	target, err := p.target(nil, true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		v, err := p.tuple(tupleRules{cond: true})
		return &setStmt{line: line, target: target, value: v}, err
	}
	st := &setBlockStmt{line: line, target: target}
	if p.cur().is("|") {
		f, err := p.filters(nil)
		if err != nil {
			return nil, err
		}
		st.filter, _ = f.(*filterExpr)
	}
	st.body, _, err = p.block("endset")
	return st, err
}
