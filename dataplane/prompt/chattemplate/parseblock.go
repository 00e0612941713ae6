package chattemplate

// macro parses behind macro, up to endmacro.
func (p *parser) macro(line int) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	st := &macroStmt{name: name.text, line: line, target: &nameExpr{name: name.text, line: line, store: true}}
	if st.params, st.defaults, err = p.signature(); err != nil {
		return nil, err
	}
	st.body, _, err = p.block("endmacro")
	return st, err
}

// signature parses the parameters of a macro or a call block.
func (p *parser) signature() (params []*nameExpr, defaults []expr, err error) {
	if err := p.expectOp("("); err != nil {
		return nil, nil, err
	}
	for !p.cur().is(")") {
		if params != nil {
			if err := p.expectOp(","); err != nil {
				return nil, nil, err
			}
		}
		t, err := p.expectName()
		if err != nil {
			return nil, nil, err
		}
		params = append(params, &nameExpr{name: t.text, line: t.line, store: true})
		if p.skipOp("=") {
			d, err := p.expression(true)
			if err != nil {
				return nil, nil, err
			}
			defaults = append(defaults, d)
		} else if defaults != nil {
			return nil, nil, p.fail(t.line, "non-default argument follows default argument")
		}
	}
	p.pos++
	return params, defaults, nil
}

// callBlock parses behind call: the parameters of the body, if any, and then the call.
func (p *parser) callBlock(line int) (stmt, error) {
	body := &macroStmt{name: "caller", line: line}
	var err error
	if p.cur().is("(") {
		if body.params, body.defaults, err = p.signature(); err != nil {
			return nil, err
		}
	}
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail(line, "expected call")
	}
	call.caller = body
	body.body, _, err = p.block("endcall")
	return &callStmt{call: call}, err
}

// filterBlock parses behind filter. The first filter stands without its bar.
func (p *parser) filterBlock() (stmt, error) {
	f, err := p.filterCall(nil)
	if err != nil {
		return nil, err
	}
	e, err := p.filters(f)
	if err != nil {
		return nil, err
	}
	st := &filterStmt{}
	st.filter, _ = e.(*filterExpr)
	st.body, _, err = p.block("endfilter")
	return st, err
}

// with parses behind with: assignments parted by commas.
func (p *parser) with() (stmt, error) {
	st := &withStmt{}
	for p.cur().kind != tokBlockEnd {
		if st.targets != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		target, err := p.target(nil, false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		v, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		st.targets, st.values = append(st.targets, target), append(st.values, v)
	}
	var err error
	st.body, _, err = p.block("endwith")
	return st, err
}

// printTag parses {% print a, b %}, an output in the form of a statement.
func (p *parser) printTag() (stmt, error) {
	st := &outputStmt{}
	for p.cur().kind != tokBlockEnd {
		if st.items != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		st.items = append(st.items, e)
	}
	return st, nil
}
