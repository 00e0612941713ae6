package chattemplate

import "slices"

// eval reads a variable. A variable that was never set reads as undefined, not as missing.
func (e *nameExpr) eval(s *state) value {
	v := s.load(e.ref)
	if v.k == kMissing {
		return undefValue
	}
	return v
}

// eval is a literal. Its value is made when the template is compiled, and shared by all renders.
func (e *constExpr) eval(*state) value { return e.v }

func (e *tupleExpr) eval(s *state) value { return s.listValue(kTuple, s.evalAll(e.items)) }

// eval makes a list, which nothing can change afterwards.
func (e *listExpr) eval(s *state) value { return s.listValue(kList, s.evalAll(e.items)) }

// eval makes a dict. Of equal keys, and 1, 1.0 and true are equal, the first gives the key and the
// last the value.
func (e *dictExpr) eval(s *state) value {
	o := s.object()
	o.keys, o.items = s.list(len(e.keys))[:0], s.list(len(e.keys))[:0]
	for i := range e.keys {
		k := e.keys[i].eval(s)
		v := e.vals[i].eval(s)
		putKey(s, o, k, v)
	}
	return value{k: kDict, o: o}
}

// putKey sets an entry of a dict that is being made.
func putKey(s *state, o *object, k, v value) {
	if !hashable(s, k) {
		return
	}
	if !s.step(len(o.keys) / 8) {
		return
	}
	for i := range o.keys {
		if equalValues(s, o.keys[i], k, 0) {
			o.items[i] = v
			return
		}
	}
	if s.charge(2 * valueBytes) {
		o.keys, o.items = append(o.keys, k), append(o.items, v)
	}
}

// hashable raises, and reports false, for a value that cannot be the key of a dict.
func hashable(s *state, k value) bool {
	switch k.k {
	case kList, kDict:
		s.raise(0, "unhashable type: %s", k.typeName())
		return false
	case kTuple:
		for _, item := range k.o.items {
			if !hashable(s, item) {
				return false
			}
		}
	case kNone, kBool, kInt, kFloat, kString, kMarkup:
	default:
		s.unsupported(k.typeName() + " as the key of a dict")
		return false
	}
	return true
}

// eval evaluates only the branch that is taken. Without an else the value is undefined.
func (e *condExpr) eval(s *state) value {
	if e.test.eval(s).truthy() {
		return e.then.eval(s)
	}
	if e.other == nil {
		return undefValue
	}
	return e.other.eval(s)
}

// eval returns an operand, not a bool, as Python does: a missing name stays undefined and prints
// nothing.
func (e *logicExpr) eval(s *state) value {
	if v := e.left.eval(s); v.truthy() == e.or {
		return v
	}
	return e.right.eval(s)
}

func (e *notExpr) eval(s *state) value { return boolValue(!e.x.eval(s).truthy()) }

// eval makes an integer of a bool, as Python does.
func (e *unaryExpr) eval(s *state) value {
	v := e.x.eval(s)
	switch {
	case v.isInt() && e.op == '+':
		return intValue(v.n)
	case v.isInt():
		if v.n == -v.n && v.n != 0 {
			return s.unsupported("an integer beyond 64 bits")
		}
		return intValue(-v.n)
	case v.k == kFloat && e.op == '+':
		return v
	case v.k == kFloat:
		return floatValue(-v.float())
	case v.k == kBig:
		return s.unsupported("an integer beyond 64 bits")
	}
	return s.raise(e.line, "bad operand type for unary %c: %s", e.op, v.typeName())
}

// eval is arithmetic. Sums that are output do not come here: see emitSum.
func (e *binExpr) eval(s *state) value {
	left := e.left.eval(s)
	return binaryOp(s, e.line, e.op, left, e.right.eval(s))
}

// eval is a ~ b, which takes str of everything; None becomes the word None.
func (e *concatExpr) eval(s *state) value {
	var buf [8]string
	parts, n := buf[:0], 0
	for _, item := range e.items {
		text := toStr(s, item.eval(s))
		parts = append(parts, text)
		n += len(text)
	}
	return strValue(s.join(parts, n))
}

// eval is a chain: a < b < c is a < b and b < c, with b evaluated once.
func (e *compareExpr) eval(s *state) value {
	left := e.first.eval(s)
	for i := range e.ops {
		right := e.ops[i].x.eval(s)
		if !compareValues(s, e.line, e.ops[i].op, left, right) {
			return boolValue(false)
		}
		left = right
	}
	return boolValue(true)
}

// eval is obj.name. Most names are no attribute of any Python type, and most objects are dicts:
// those are looked up directly.
func (e *attrExpr) eval(s *state) value {
	obj := e.obj.eval(s)
	if e.plain && obj.k == kDict {
		v, _ := lookup(s, obj.o, e.name)
		return v
	}
	return getAttr(s, e.line, obj, e.name)
}

func (e *itemExpr) eval(s *state) value {
	obj := e.obj.eval(s)
	arg := e.arg.eval(s)
	if obj.k == kDict && arg.k == kString {
		if v, ok := lookup(s, obj.o, arg.s); ok {
			return v
		}
	}
	return getItem(s, e.line, obj, arg)
}

// eval is obj[start:stop:step]; an omitted bound is None.
func (e *sliceExpr) eval(s *state) value {
	obj := e.obj.eval(s)
	bound := func(x expr) value {
		if x == nil {
			return noneValue
		}
		return x.eval(s)
	}
	start, stop := bound(e.start), bound(e.stop)
	return sliceValue(s, e.line, obj, start, stop, bound(e.step))
}

// eval is never called: the parser makes these for the left of an assignment only.
func (e *nsRef) eval(s *state) value { return s.raise(e.line, "a namespace reference is no value") }

// eval evaluates the value, then the arguments, then filters.
func (e *filterExpr) eval(s *state) value {
	v := undefValue
	if e.x != nil {
		v = e.x.eval(s)
	}
	return e.apply(s, v)
}

func (e *filterExpr) apply(s *state, v value) value {
	mark := len(s.stack)
	a := s.args(e.line, &e.args)
	if scan(s, len(v.s)); s.err != nil {
		return undefValue
	}
	if e.fn == nil { // in a branch, for compile refuses others
		return s.unsupported(gapFilter + e.name)
	}
	v = e.fn(s, v, a)
	s.release(mark)
	return v
}

func (e *testExpr) eval(s *state) value {
	v := e.x.eval(s)
	mark := len(s.stack)
	a := s.args(e.line, &e.args)
	if scan(s, len(v.s)); s.err != nil {
		return undefValue
	}
	if e.fn == nil {
		return s.unsupported(gapTest + e.name)
	}
	ok := e.fn(s, v, a)
	s.release(mark)
	return boolValue(ok)
}

// args are the values of the arguments of a call. They lie on the state's stack.
type args struct {
	line  int
	pos   []value
	names []string // of kw
	kw    []value
}

// bind matches arguments with parameters, as Python does for a function without * and **, and
// returns one positional argument for each, kMissing where there is none. It raises, and reports
// false, for too many, unknown, or fewer than need. The caller releases the stack.
func (s *state) bind(a args, what string, need int, params []string) (args, bool) {
	if len(a.pos) > len(params) {
		s.raise(a.line, "%s takes at most %d arguments", what, len(params))
		return a, false
	}
	mark := len(s.stack)
	for range params {
		s.stack = append(s.stack, value{})
	}
	out := s.stack[mark:]
	copy(out, a.pos)
	for i, name := range a.names {
		at := slices.Index(params, name)
		if at < 0 || isDigit(name[0]) || out[at].k != kMissing {
			s.raise(a.line, "%s got an unexpected argument %s", what, name)
			return a, false
		}
		out[at] = a.kw[i]
	}
	if at := slices.IndexFunc(out[:need], func(v value) bool { return v.k == kMissing }); at >= 0 {
		s.raise(a.line, "%s misses the argument %s", what, params[at])
		return a, false
	}
	return args{line: a.line, pos: out}, true
}
