package chattemplate

// loopState is a loop in progress: Jinja's LoopContext.
type loopState struct {
	self   object
	it     iterator
	st     *forStmt
	ahead  []value // items taken before their turn, for last, nextitem and length
	index0 int64
	// total is the length, or -1 while it is not known.
	total           int64
	current, before value
}

// pull takes the next item that passes the loop's filter.
func (l *loopState) pull(s *state) (value, bool) {
	for s.err == nil {
		v, ok := l.it.next(s)
		if !ok {
			return value{}, false
		}
		fr := &l.st.frame
		if l.st.test == nil {
			return v, true
		}
		if !s.step(1) {
			break
		}
		s.assign(l.st.line, fr.testTarget, v)
		if l.st.test.eval(s).truthy() && s.err == nil {
			return v, true
		}
	}
	return value{}, false
}

func (l *loopState) advance(s *state) bool {
	var v value
	if len(l.ahead) > 0 {
		v, l.ahead = l.ahead[0], l.ahead[1:]
	} else {
		var ok bool
		if v, ok = l.pull(s); !ok {
			return false
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return true
}

func (l *loopState) peek(s *state) (value, bool) {
	if len(l.ahead) == 0 {
		v, ok := l.pull(s)
		if !ok {
			return value{}, false
		}
		l.ahead = append(l.ahead, v)
	}
	return l.ahead[0], true
}

// length is len(loop). Where it cannot be known without going through all, all is taken now.
func (l *loopState) length(s *state) int64 {
	if l.total < 0 {
		for {
			v, ok := l.pull(s)
			if !ok {
				break
			}
			l.ahead = append(l.ahead, v)
		}
		l.total = l.index0 + 1 + int64(len(l.ahead))
	}
	return l.total
}

// loopAttr is an attribute of the variable loop.
func loopAttr(s *state, l *loopState, name string) value {
	switch name {
	case "index":
		return intValue(l.index0 + 1)
	case "index0":
		return intValue(l.index0)
	case "first":
		return boolValue(l.index0 == 0)
	case "last":
		_, more := l.peek(s)
		return boolValue(!more)
	case "length":
		return intValue(l.length(s))
	case "revindex":
		return intValue(l.length(s) - l.index0)
	case "revindex0":
		return intValue(l.length(s) - l.index0 - 1)
	case "previtem":
		if l.index0 == 0 {
			return undefValue
		}
		return l.before
	case "nextitem":
		if v, ok := l.peek(s); ok {
			return v
		}
		return undefValue
	}
	return s.unsupported("attribute " + name + " of loop")
}

// exec runs a loop, and its else if no turn came to its end.
func (st *forStmt) exec(s *state) ctl {
	v := st.iter.eval(s)
	if s.err != nil {
		return ctlStop
	}
	l := &s.states.take(1)[0]
	l.st, l.index0, l.total = st, -1, -1
	l.self.loop = l
	l.it = iterate(s, st.line, v)
	if st.test == nil && l.it.size >= 0 {
		l.total = int64(l.it.size)
	}
	if st.test != nil {
		s.enter(st.frame.test)
	}
	finished, c := st.turns(s, l)
	if s.err != nil {
		return ctlStop
	}
	if c == ctlNext && !finished && st.orelse != nil {
		s.enter(st.frame.orelse)
		return s.run(st.orelse)
	}
	return c
}

// turns runs the turns of a loop. finished reports whether the body came to its end once, without
// which Jinja runs the loop's else.
func (st *forStmt) turns(s *state, l *loopState) (finished bool, c ctl) {
	fr := &st.frame
	for s.step(1) && l.advance(s) {
		s.enter(fr.body)
		if fr.loopSlot >= 0 {
			s.frame.vars[fr.loopSlot] = value{k: kLoop, o: &l.self}
		}
		if s.assign(st.line, st.target, l.current); s.err != nil {
			return false, ctlStop
		}
		switch s.run(st.body) {
		case ctlStop:
			return false, ctlStop
		case ctlBreak:
			return finished, ctlNext
		case ctlNext:
			finished = true
		}
	}
	return finished, s.next()
}
