package chattemplate

import "slices"

// maxCalls bounds how deep macros may call each other.
const maxCalls = 200

// eval calls a macro, a method or a function. obj.name(...) prefers the method, as obj.name does: a
// dict's key called items is not called.
func (e *callExpr) eval(s *state) value {
	if e.caller != nil {
		return s.callWith(e)
	}
	if at, ok := e.fn.(*attrExpr); ok {
		// A method is called without being made a value first.
		self := at.obj.eval(s)
		if s.err != nil {
			return undefValue
		}
		if self.k != kNamespace && self.k != kUndefined && hasAttr(self, at.name) {
			return s.withArgs(e, func(a args) value {
				if out, ok := invokeMethod(s, self, at.name, a); ok {
					return out
				}
				return s.call(getAttr(s, at.line, self, at.name), a)
			})
		}
		fn := getAttr(s, at.line, self, at.name)
		return s.withArgs(e, func(a args) value { return s.call(fn, a) })
	}
	fn := e.fn.eval(s)
	return s.withArgs(e, func(a args) value { return s.call(fn, a) })
}

// withArgs evaluates the arguments of a call for as long as it runs.
func (s *state) withArgs(e *callExpr, run func(args) value) value {
	mark := len(s.stack)
	a := s.args(e.line, &e.args)
	if !s.step(1) {
		return undefValue
	}
	out := run(a)
	s.release(mark)
	return out
}

// call calls a value.
func (s *state) call(fn value, a args) value {
	switch fn.k {
	case kMacro:
		return s.macroText(fn.o, a, value{})
	case kFunc:
		return globals[fn.n].call(s, a)
	case kMethod:
		if out, ok := invokeMethod(s, fn.o.items[0], fn.s, a); ok {
			return out
		}
		return s.unsupported("method " + fn.s + " of " + fn.o.items[0].typeName())
	case kLoop:
		return s.raise(a.line, "The loop must have the 'recursive' marker to be called recursively.")
	case kUndefined:
		return s.raise(a.line, "undefined is called")
	}
	return s.raise(a.line, "%s object is not callable", fn.typeName())
}

// callWith calls the macro of a call block. Its body is the value caller.
func (s *state) callWith(e *callExpr) value {
	fn := e.fn.eval(s)
	caller := s.closure(e.caller)
	return s.withArgs(e, func(a args) value {
		if fn.k != kMacro {
			return s.unsupported("a call block of " + fn.typeName())
		}
		return s.macroText(fn.o, a, caller)
	})
}

// macroText runs a macro and returns its text, which is not output.
func (s *state) macroText(o *object, a args, caller value) value {
	from := len(s.out)
	s.runMacro(o, a, caller)
	text := s.cutOutput(from)
	s.charge(len(text))
	return strValue(text)
}

// exec outputs the result of the called macro. The block's body runs where the macro calls
// caller().
func (st *callStmt) exec(s *state) ctl {
	s.write(st.call.eval(s))
	return s.next()
}

// closure makes a macro value, which sees the variables of the frame that it is made in.
func (s *state) closure(st *macroStmt) value {
	o := s.object()
	o.macro, o.outer = st, s.frame
	return value{k: kMacro, o: o}
}

// exec binds the macro's name. Calls may come before, through another macro: they find nothing
// then, as in Jinja.
func (st *macroStmt) exec(s *state) ctl {
	s.assign(st.line, st.target, s.closure(st))
	return s.next()
}

// exec runs a generation block. transformers makes it a call block, so assignments in it do not
// leave it. Its text goes straight to the output instead of being captured.
func (st *genStmt) exec(s *state) ctl {
	f := s.closure(st.body)
	if s.err == nil {
		s.runMacro(f.o, args{line: st.body.line}, value{})
	}
	return s.next()
}

// runMacro runs a macro's body and appends its text to the output. The caller is the body of a call
// block.
func (s *state) runMacro(o *object, a args, caller value) {
	st := o.macro
	f := &st.fn
	if s.depth++; s.depth > maxCalls {
		s.unsupported("macros that call each other too deep")
	}
	defer func() { s.depth-- }()
	if !s.charge(f.info.slots*valueBytes) || s.err != nil {
		return
	}
	frame := &s.frames.take(1)[0]
	frame.vars, frame.outer = s.values.take(f.info.slots), o.outer
	if !bindParams(s, st, a, caller, frame.vars) {
		return
	}
	before := s.frame
	s.frame = frame
	s.enter(f.scope)
	for i, p := range st.params {
		if frame.vars[f.slots[i]].k != kMissing {
			continue
		}
		v := undefValue
		if d := i - (len(st.params) - len(st.defaults)); d >= 0 {
			v = st.defaults[d].eval(s)
		}
		s.assign(p.line, p, v)
	}
	if s.err == nil {
		s.run(st.body)
	}
	s.frame = before
}

// bindParams gives a macro its arguments, as Macro.__call__ of jinja2/runtime.py does.
func bindParams(s *state, st *macroStmt, a args, caller value, vars []value) bool {
	f := &st.fn
	for i := range min(len(a.pos), len(st.params)) {
		vars[f.slots[i]] = a.pos[i]
	}
	if !s.step(len(st.params) * len(a.names) / 8) {
		return false
	}
	used := make([]bool, len(a.kw))
	for i := len(a.pos); i < len(st.params); i++ {
		if at := slices.Index(a.names, st.params[i].name); at >= 0 {
			vars[f.slots[i]] = a.kw[at]
			used[at] = true
		}
	}
	if f.caller >= 0 {
		vars[f.caller] = caller
		if caller.k == kMissing {
			vars[f.caller] = undefValue
		}
		if slices.Contains(a.names, "caller") {
			s.unsupported("an argument named caller")
			return false
		}
	} else if caller.k != kMissing {
		s.raise(a.line, "macro %s takes no caller", st.name)
		return false
	}
	if at := slices.Index(used, false); at >= 0 {
		s.raise(a.line, "macro %s takes no keyword argument %s", st.name, a.names[at])
		return false
	}
	if len(a.pos) > len(st.params) {
		s.raise(a.line, "macro %s takes not more than %d argument(s)", st.name, len(st.params))
	}
	return s.err == nil
}

// evalAll evaluates expressions in order into a new list.
func (s *state) evalAll(items []expr) []value {
	out := s.list(len(items))
	if out == nil {
		return nil
	}
	for i, item := range items {
		out[i] = item.eval(s)
	}
	return out
}

// args evaluates arguments. The caller releases the stack.
func (s *state) args(line int, e *argExprs) args {
	a := args{line: line, names: e.names}
	if len(e.pos) == 0 && len(e.kw) == 0 && e.dyn == nil && e.dkw == nil {
		return a
	}
	mark := len(s.stack)
	for _, x := range e.pos {
		v := x.eval(s)
		s.stack = append(s.stack, v)
	}
	pos := len(e.pos)
	var kw []value
	if len(e.kw) > 0 || e.dkw != nil {
		// Python evaluates keyword arguments after *x where both stand.
		kw = s.evalAll(e.kw)
	}
	if e.dyn != nil {
		it := iterate(s, line, e.dyn.eval(s))
		for v, ok := it.next(s); ok && s.step(1); v, ok = it.next(s) {
			s.stack = append(s.stack, v)
			pos++
		}
	}
	if e.dkw != nil {
		a.names, kw = spreadKeywords(s, line, e.dkw.eval(s), e.names, kw)
	}
	a.pos, a.kw = s.stack[mark:mark+pos], kw
	return a
}

// spreadKeywords adds the entries of **x to keyword arguments.
func spreadKeywords(s *state, line int, x value, names []string, kw []value) ([]string, []value) {
	if x.k != kDict {
		s.raise(line, "argument after ** must be a mapping, not %s", x.typeName())
		return nil, nil
	}
	names = append([]string{}, names...)
	for i, k := range x.o.keys {
		if !s.step(1 + len(names)/8) {
			return nil, nil
		}
		if !k.isStr() {
			s.raise(line, "keywords must be strings")
			return nil, nil
		}
		if slices.Contains(names, k.s) {
			s.raise(line, "got multiple values for keyword argument %s", k.s)
			return nil, nil
		}
		names, kw = append(names, k.s), append(kw, x.o.items[i])
	}
	return names, kw
}

// release gives back the stack above mark.
func (s *state) release(mark int) {
	clear(s.stack[mark:])
	s.stack = s.stack[:mark]
}
