package chattemplate

import "strings"

// maxDepth bounds how deep values are compared and printed; Python's own recursion ends near 1,000.
const maxDepth = 500

// exactFloat reports whether asFloat keeps a number's value. Python compares large integers with
// floats exactly; that is left to the worker.
func exactFloat(s *state, v value) bool {
	if v.k == kFloat || v.n>>53 == 0 || v.n>>53 == -1 {
		return true
	}
	s.unsupported("a comparison of a large integer with a float")
	return false
}

// equalValues is Python's a == b.
func equalValues(s *state, a, b value, depth int) bool {
	if depth > maxDepth {
		s.unsupported("a value nested too deep")
		return false
	}
	switch {
	case a.isNum() && b.isNum():
		if a.isInt() && b.isInt() {
			return a.n == b.n
		}
		return exactFloat(s, a) && exactFloat(s, b) && a.asFloat() == b.asFloat()
	case a.isStr() && b.isStr():
		return len(a.s) == len(b.s) && scan(s, len(a.s)) && a.s == b.s
	case a.k == kBig || b.k == kBig:
		if a.k == kFloat || b.k == kFloat {
			s.unsupported("a comparison of a large integer")
		}
		return a.k == b.k && a.s == b.s
	case a.k != b.k:
		return false
	}
	switch a.k {
	case kUndefined, kNone:
		return true
	case kList, kTuple, kRange:
		return equalLists(s, a.o.items, b.o.items, depth)
	case kDict:
		return equalDicts(s, a.o, b.o, depth)
	case kView:
		s.unsupported("a comparison of views")
		return false
	case kMethod:
		s.unsupported("a comparison of methods")
		return false
	}
	return a.o == b.o && a.n == b.n
}

// equalLists compares element by element. Python takes identical elements for equal first, which
// only NaN could show.
func equalLists(s *state, a, b []value, depth int) bool {
	if len(a) != len(b) || !s.step(len(a)) {
		return false
	}
	for i := range a {
		if !equalValues(s, a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

// equalDicts compares without regard to the order of keys.
func equalDicts(s *state, a, b *object, depth int) bool {
	if len(a.keys) != len(b.keys) || !s.step(len(a.keys)) {
		return false
	}
	for i, k := range a.keys {
		other, ok := lookupKey(s, b, k)
		if !ok || !equalValues(s, a.items[i], other, depth+1) {
			return false
		}
	}
	return true
}

// lookupKey returns the value of any key of a dict.
func lookupKey(s *state, o *object, k value) (value, bool) {
	if k.isStr() {
		return lookup(s, o, k.s)
	}
	if k.k == kUndefined || !hashable(s, k) { // no dict here has an undefined key
		return undefValue, false
	}
	for i := range o.keys {
		if s.step(1) && equalValues(s, o.keys[i], k, 0) {
			return o.items[i], true
		}
	}
	return undefValue, false
}

// compareValues is Python's a op b for the operators of comparison.
func compareValues(s *state, line int, op string, a, b value) bool {
	switch op {
	case "==":
		return equalValues(s, a, b, 0)
	case "!=":
		return !equalValues(s, a, b, 0)
	case "in":
		return containsValue(s, line, b, a)
	case "notin":
		return !containsValue(s, line, b, a)
	}
	c, ordered := orderValues(s, line, a, b)
	if !ordered {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// orderValues compares two values that Python can order; it raises for others. NaN is ordered with
// nothing.
func orderValues(s *state, line int, a, b value) (c int, ordered bool) {
	switch {
	case a.k == kBig || b.k == kBig:
		s.unsupported(tooBig)
		return 0, false
	case a.isInt() && b.isInt():
		switch {
		case a.n < b.n:
			return -1, true
		case a.n > b.n:
			return 1, true
		}
		return 0, true
	case a.isNum() && b.isNum():
		x, y := a.asFloat(), b.asFloat()
		switch {
		case !exactFloat(s, a) || !exactFloat(s, b):
			return 0, false
		case x < y:
			return -1, true
		case x > y:
			return 1, true
		}
		return 0, x == y
	case a.isStr() && b.isStr():
		scan(s, min(len(a.s), len(b.s)))
		return strings.Compare(a.s, b.s), true // the order of UTF-8 is that of code points
	case a.k == b.k && (a.k == kList || a.k == kTuple):
		return orderLists(s, line, a.o.items, b.o.items)
	case a.k == kView && b.k == kView:
		s.unsupported("a comparison of views")
		return 0, false
	}
	s.raise(line, "cannot order %s and %s", a.typeName(), b.typeName())
	return 0, false
}

// orderLists is the order of the first elements that differ, else that of the lengths.
func orderLists(s *state, line int, a, b []value) (int, bool) {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.unsupported("a value nested too deep")
		return 0, false
	}
	for i := range min(len(a), len(b)) {
		if !s.step(1) || !equalValues(s, a[i], b[i], 0) {
			return orderValues(s, line, a[i], b[i])
		}
	}
	return len(a) - len(b), true
}

// containsValue is Python's x in box.
func containsValue(s *state, line int, box, x value) bool {
	switch box.k {
	case kString, kMarkup:
		if !x.isStr() {
			s.raise(line, "'in <string>' requires string as left operand, not %s", x.typeName())
			return false
		}
		return scan(s, len(box.s)) && strings.Contains(box.s, x.s)
	case kDict:
		_, ok := lookupKey(s, box.o, x)
		return ok
	case kUndefined:
		return false
	case kView:
		if box.n == viewKeys {
			_, ok := lookupKey(s, box.o, x)
			return ok
		}
	}
	it := iterate(s, line, box)
	for v, ok := it.next(s); ok && s.step(1); v, ok = it.next(s) {
		if equalValues(s, v, x, 0) {
			return true
		}
	}
	return false
}
