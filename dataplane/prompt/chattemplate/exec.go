package chattemplate

// run executes statements up to the first that leaves their order.
func (s *state) run(list []stmt) ctl {
	for _, st := range list {
		if c := st.exec(s); c != ctlNext {
			return c
		}
	}
	return ctlNext
}

// next is how execution goes on where only an error can stop it.
func (s *state) next() ctl {
	if s.err != nil {
		return ctlStop
	}
	return ctlNext
}

// exec outputs text and expressions in order. The limits are checked once a statement, so one
// statement may exceed them by its own text.
func (st *outputStmt) exec(s *state) ctl {
	for _, e := range st.items {
		if c, ok := e.(*constExpr); ok && c.v.k == kString {
			s.out = append(s.out, c.v.s...)
			continue
		}
		if s.emit(e); s.err != nil {
			return ctlStop
		}
	}
	if !s.step(1) {
		return ctlStop
	}
	return ctlNext
}

// emit appends str(e) to the output; of a sum or a concatenation part by part, without a string of
// the whole.
func (s *state) emit(e expr) {
	switch e := e.(type) {
	case *binExpr:
		if e.op == "+" {
			s.emitSum(e)
			return
		}
	case *concatExpr:
		for _, item := range e.items {
			s.emit(item)
		}
		return
	case *condExpr:
		if e.test.eval(s).truthy() {
			s.emit(e.then)
		} else if e.other != nil {
			s.emit(e.other)
		}
		return
	}
	s.write(e.eval(s))
}

// emitSum appends a sum. While all summands are strings, each can be appended as it comes: the
// first that is not one raises.
func (s *state) emitSum(e *binExpr) {
	var buf [12]*binExpr
	chain := buf[:0]
	var first expr = e
	for {
		b, ok := first.(*binExpr)
		if !ok || b.op != "+" {
			break
		}
		chain = append(chain, b)
		first = b.left
	}
	sum := first.eval(s)
	at, from, direct := len(chain)-1, len(s.out), sum.k == kString
	if direct && fits(s, len(sum.s)) {
		s.out = append(s.out, sum.s...)
	}
	for ; at >= 0; at-- {
		v := chain[at].right.eval(s)
		if direct && v.k == kString {
			if fits(s, len(v.s)) {
				s.out = append(s.out, v.s...)
			}
			continue
		}
		if direct { // it becomes Markup, or raises
			sum, direct = strValue(s.cutOutput(from)), false
		}
		sum = binaryOp(s, chain[at].line, "+", sum, v)
	}
	if !direct {
		s.write(sum)
	}
}

// exec runs the first branch with a true test. A branch has no scope of its own.
func (st *ifStmt) exec(s *state) ctl {
	for i, test := range st.tests {
		ok := test.eval(s).truthy()
		if s.err != nil {
			return ctlStop
		}
		if ok {
			return s.run(st.bodies[i])
		}
	}
	return s.run(st.orelse)
}

// exec assigns. A name belongs to the scope that it is set in: a loop's is gone behind the turn.
func (st *setStmt) exec(s *state) ctl {
	checkNamespaces(s, st.target)
	v := st.value.eval(s)
	if s.err == nil {
		s.assign(st.line, st.target, v)
	}
	return s.next()
}

// checkNamespaces raises if ns of a target ns.attr is none. Python looks before it evaluates the
// value.
func checkNamespaces(s *state, target expr) {
	switch t := target.(type) {
	case *nsRef:
		if s.load(t.ns.ref).k != kNamespace {
			s.raise(t.line, "cannot assign attribute on non-namespace object")
		}
	case *tupleExpr:
		for _, item := range t.items {
			checkNamespaces(s, item)
		}
	}
}

// assign gives a value to a target.
func (s *state) assign(line int, target expr, v value) {
	switch t := target.(type) {
	case *nameExpr:
		s.frame.vars[t.ref.slot] = v
	case *nsRef:
		ns := s.load(t.ns.ref)
		if ns.k != kNamespace {
			// Of a set block, where Jinja does not look, and a dict would be changed.
			s.unsupported("a set block that assigns to an attribute of a value that is not a namespace")
			return
		}
		putKey(s, ns.o, strValue(t.attr), v)
	case *tupleExpr:
		it := iterate(s, line, v)
		for i, item := range t.items {
			x, ok := it.next(s)
			if !ok {
				s.raise(line, "not enough values to unpack (expected %d, got %d)", len(t.items), i)
			}
			if s.err != nil {
				return
			}
			s.assign(line, item, x)
		}
		if _, more := it.next(s); more {
			s.raise(line, "too many values to unpack (expected %d)", len(t.items))
		}
	}
}

// captured runs statements and returns their text, which is not output.
func (s *state) captured(body []stmt) (string, ctl) {
	from := len(s.out)
	c := s.run(body)
	text := s.cutOutput(from)
	s.charge(len(text))
	return text, c
}

// exec assigns the text of a block, after its filters.
func (st *setBlockStmt) exec(s *state) ctl {
	s.enter(st.scope)
	text, c := s.captured(st.body)
	if c != ctlNext {
		return c
	}
	v := strValue(text)
	if st.filter != nil {
		v = st.filter.over(s, v)
	}
	if s.err == nil {
		s.assign(st.line, st.target, v)
	}
	return s.next()
}

// over applies a chain of filters that has no value of its own to v.
func (e *filterExpr) over(s *state, v value) value {
	if inner, ok := e.x.(*filterExpr); ok {
		v = inner.over(s, v)
	}
	if s.err != nil {
		return undefValue
	}
	return e.apply(s, v)
}

// exec outputs the text of a block, after its filters.
func (st *filterStmt) exec(s *state) ctl {
	s.enter(st.scope)
	text, c := s.captured(st.body)
	if c != ctlNext {
		return c
	}
	s.write(st.filter.over(s, strValue(text)))
	return s.next()
}

func (st *jumpStmt) exec(*state) ctl { return st.to }
