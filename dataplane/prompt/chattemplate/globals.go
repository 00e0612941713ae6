package chattemplate

import "slices"

// global is a function that every template has.
type global struct {
	name string
	call func(s *state, a args) value
}

// globals are the functions of transformers and of Jinja that are rendered here.
var globals = []global{
	{"raise_exception", raiseFunc}, {"strftime_now", strftimeFunc}, {"namespace", namespaceFunc}, {"range", rangeFunc}, {"dict", dictFunc},
}

// missingGlobals are functions of Jinja that are not rendered here: a template that reads such a
// name is refused when it is compiled.
var missingGlobals = []string{"cycler", "joiner", "lipsum"}

// raiseFunc is raise_exception of transformers, with which templates refuse conversations.
func raiseFunc(s *state, a args) value {
	a, ok := s.bind(a, "raise_exception", 1, []string{"message"})
	if !ok {
		return undefValue
	}
	return s.raise(a.line, "%s", toStr(s, a.pos[0]))
}

// namespaceFunc is namespace(mapping, **kw): variables that a loop can change for the statements
// behind it.
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
		return s.unsupported("dict of " + a.pos[0].typeName())
	}
	if o.keys == nil {
		o.keys, o.items = s.list(len(a.names))[:0], s.list(len(a.names))[:0]
	}
	for i, name := range a.names {
		putKey(s, o, strValue(name), a.kw[i])
	}
	return value{k: kDict, o: o}
}

// maxRange is the bound of Jinja's sandbox.
const maxRange = 100000

// rangeFunc is range(stop) or range(start, stop, step). Its elements are made at once, so the
// sandbox's bound is ours as well.
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
		return s.unsupported("a range of large integers")
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

// setGlobals sets the functions that every template has. A name of the request comes later and
// overrides them.
func setGlobals(s *state) {
	for i := range globals {
		s.set(globals[i].name, value{k: kFunc, n: int64(i)})
	}
}
