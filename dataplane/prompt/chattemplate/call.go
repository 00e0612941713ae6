package chattemplate

import "slices"

// maxCalls bounds how deep macros may call each other.
const maxCalls = 200

// eval calls a macro, a method or a function. obj.name(...) prefers the method, as obj.name does: a dict's key called items is not called.
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
		if self.k != kNamespace && self.k != kUndefined && (self.k == kLoop || hasAttr(self, at.name)) {
			return s.withArgs(e, func(a args) value {
				if out, ok := s.invoke(self, at.name, a); ok {
					return out
				}
				return s.call(s.attr(at.line, self, at.name), a)
			})
		}
		fn := s.attr(at.line, self, at.name)
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
		from := len(s.out)
		s.capture++
		s.runMacro(fn.o, a, value{})
		s.capture--
		if s.err != nil {
			return undefValue
		}
		text := s.text.concat(view(s.out[from:]), "")
		s.out = s.out[:from]
		s.charge(len(text))
		return strValue(text)
	case kFunc:
		return globals[fn.n].call(s, a)
	case kMethod:
		if out, ok := s.invoke(fn.o.items[0], fn.s, a); ok {
			return out
		}
		return s.unsure("method " + fn.s + " of " + fn.o.items[0].typeName())
	case kLoop:
		return s.raise(a.line, "The loop must have the 'recursive' marker to be called recursively.")
	case kUndefined:
		return s.raise(a.line, "undefined is called")
	}
	return s.raise(a.line, "%s object is not callable", fn.typeName())
}

// emitCall outputs the text of a macro as it comes. It reports false, without having done anything, for other calls.
func (s *state) emitCall(e *callExpr) bool {
	name, ok := e.fn.(*nameExpr)
	if !ok || e.caller != nil {
		return false
	}
	fn := s.load(name.ref)
	if fn.k != kMacro {
		return false
	}
	mark := len(s.stack)
	if a := s.args(e.line, &e.args); s.step(1) {
		s.runMacro(fn.o, a, value{})
	}
	s.release(mark)
	return true
}

// callWith calls the macro of a call block, whose body is the value caller.
func (s *state) callWith(e *callExpr) value {
	fn := e.fn.eval(s)
	caller := s.closure(e.caller)
	return s.withArgs(e, func(a args) value {
		if fn.k != kMacro {
			return s.unsure("a call block of " + fn.typeName())
		}
		from := len(s.out)
		s.capture++
		s.runMacro(fn.o, a, caller)
		s.capture--
		text := s.text.concat(view(s.out[from:]), "")
		s.out = s.out[:from]
		return strValue(text)
	})
}

// exec outputs what the called macro returns. The block's body runs where the macro calls caller().
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

// exec binds the macro's name. Calls may come before, through another macro: they find nothing then, as in Jinja.
func (st *macroStmt) exec(s *state) ctl {
	s.assign(st.line, st.target, s.closure(st))
	return s.next()
}

// exec runs a generation block. transformers makes it a call block, so what it sets does not leave it; its text is not captured, since it
// is output at once.
func (st *genStmt) exec(s *state) ctl {
	f := s.closure(st.body)
	if s.err == nil {
		s.runMacro(f.o, args{line: st.body.line}, value{})
	}
	return s.next()
}

// runMacro runs a macro's body, whose text is appended to the output. A caller is what a call block passes.
func (s *state) runMacro(o *object, a args, caller value) {
	st := o.macro
	f := &st.fn
	if s.depth++; s.depth > maxCalls {
		s.unsure("macros that call each other too deep")
	}
	defer func() { s.depth-- }()
	if !s.charge(f.info.slots*valueBytes) || s.err != nil {
		return
	}
	frame := &s.frames.take(1)[0]
	frame.vars, frame.outer = s.values.take(f.info.slots), o.outer
	if !s.params(st, a, caller, frame.vars) {
		return
	}
	before, loops := s.frame, s.loops
	s.frame, s.loops = frame, 1 // loops inside of a macro are not the template's
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
	s.frame, s.loops = before, loops
}

// params gives a macro its arguments, as Macro.__call__ of jinja2/runtime.py does.
func (s *state) params(st *macroStmt, a args, caller value, vars []value) bool {
	f := &st.fn
	for i := range min(len(a.pos), len(st.params)) {
		vars[f.slots[i]] = a.pos[i]
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
			s.unsure("an argument named caller")
			return false
		}
	} else if caller.k != kMissing {
		s.raise(a.line, "macro %s takes no caller", st.name)
		return false
	}
	var names, rest []value
	for i, name := range a.names {
		if !used[i] {
			names, rest = append(names, strValue(name)), append(rest, a.kw[i])
		}
	}
	switch {
	case f.kwargs >= 0:
		o := s.object()
		o.keys, o.items = names, rest
		vars[f.kwargs] = value{k: kDict, o: o}
	case len(names) > 0:
		s.raise(a.line, "macro %s takes no keyword argument %s", st.name, names[0].s)
		return false
	}
	extra := a.pos[min(len(a.pos), len(st.params)):]
	switch {
	case f.varargs >= 0:
		vars[f.varargs] = s.listValue(kTuple, slices.Clone(extra))
	case len(extra) > 0:
		s.raise(a.line, "macro %s takes not more than %d argument(s)", st.name, len(st.params))
		return false
	}
	return true
}

// global is a function that every template has.
type global struct {
	name string
	call func(s *state, a args) value
}

// globals are the functions of transformers and of Jinja that are rendered here.
var globals = []global{
	{"raise_exception", raiseFunc}, {"strftime_now", strftimeFunc}, {"namespace", namespaceFunc}, {"range", rangeFunc}, {"dict", dictFunc},
}

// missingGlobals are functions of Jinja that are not rendered here: a template that reads such a name is refused when it is compiled.
var missingGlobals = []string{"cycler", "joiner", "lipsum"}

// raiseFunc is raise_exception of transformers, with which templates refuse conversations.
func raiseFunc(s *state, a args) value {
	var out [1]value
	if !s.bind(a, "raise_exception", 1, []string{"message"}, out[:]) {
		return undefValue
	}
	return s.raise(a.line, "%s", s.str(out[0]))
}

// namespaceFunc is namespace(mapping, **kw): what a loop can change for the statements behind it.
func namespaceFunc(s *state, a args) value {
	v := dictFunc(s, a)
	if v.k == kDict { // else it has raised
		v.k = kNamespace
	}
	return v
}

// dictFunc is dict(mapping, **kw).
func dictFunc(s *state, a args) value {
	o := s.object()
	switch {
	case len(a.pos) > 1:
		return s.raise(a.line, "dict expected at most 1 argument")
	case len(a.pos) == 1 && a.pos[0].k == kDict:
		o.keys, o.items = slices.Clone(a.pos[0].o.keys), slices.Clone(a.pos[0].o.items)
		if !s.charge(2 * len(o.keys) * valueBytes) {
			return undefValue
		}
	case len(a.pos) == 1:
		return s.unsure("dict of " + a.pos[0].typeName())
	}
	if o.keys == nil {
		o.keys, o.items = s.list(len(a.names))[:0], s.list(len(a.names))[:0]
	}
	for i, name := range a.names {
		s.put(o, strValue(name), a.kw[i])
	}
	return value{k: kDict, o: o}
}

// maxRange is what the sandbox of Jinja allows.
const maxRange = 100000

// rangeFunc is range(stop) or range(start, stop, step). Its elements are made at once, so the sandbox's bound is ours as well.
func rangeFunc(s *state, a args) value {
	if len(a.kw) > 0 || len(a.pos) == 0 || len(a.pos) > 3 {
		return s.raise(a.line, "range takes 1 to 3 arguments")
	}
	for _, v := range a.pos {
		if !v.isInt() {
			return s.raise(a.line, "%s object cannot be interpreted as an integer", v.typeName())
		}
	}
	from, to, by := int64(0), a.pos[0].n, int64(1)
	if len(a.pos) > 1 {
		from, to = a.pos[0].n, a.pos[1].n
	}
	if len(a.pos) > 2 {
		by = a.pos[2].n
	}
	const far = 1 << 40
	switch {
	case by == 0:
		return s.raise(a.line, "range() arg 3 must not be zero")
	case max(from, to, by, -from, -to, -by) > far:
		return s.unsure("a range of large integers")
	}
	n := steps(from, to, by)
	if n > maxRange {
		return s.raise(a.line, "Range too big")
	}
	items := s.list(n)
	if items == nil {
		return undefValue
	}
	for i := range items {
		items[i] = intValue(from + int64(i)*by)
	}
	v := s.listValue(kRange, items)
	v.o.arg = [3]int64{from, to, by}
	return v
}
