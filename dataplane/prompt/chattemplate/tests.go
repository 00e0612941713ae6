package chattemplate

import "unicode"

type testFunc func(s *state, v value, a args) bool

// tests are the tests that are rendered here. A template with another one is refused when it is
// compiled, or when its branch runs.
var tests = table[value, testFunc]([]row[value, bool]{
	{"defined", 0, plainTest(func(v value) bool { return v.k != kUndefined })},
	{"undefined", 0, plainTest(func(v value) bool { return v.k == kUndefined })},
	{"none", 0, plainTest(func(v value) bool { return v.k == kNone })},
	{"boolean", 0, plainTest(func(v value) bool { return v.k == kBool })},
	{"false", 0, plainTest(func(v value) bool { return v.k == kBool && v.n == 0 })},
	{"true", 0, plainTest(func(v value) bool { return v.k == kBool && v.n != 0 })},
	{"integer", 0, plainTest(func(v value) bool { return v.k == kInt || v.k == kBig })},
	{"float", 0, plainTest(func(v value) bool { return v.k == kFloat })},
	{"number", 0, plainTest(func(v value) bool { return v.isNum() || v.k == kBig })},
	{"string", 0, plainTest(value.isStr)},
	{"mapping", 0, plainTest(func(v value) bool { return v.k == kDict })},
	{"sequence", 0, plainTest(isSequence)},
	{"iterable", 0, plainTest(isIterable)},
	{"callable", 0, plainTest(func(v value) bool { return v.k >= kMacro || v.k == kUndefined || v.k == kLoop })},
	{"escaped", 0, plainTest(func(v value) bool { return v.k == kMarkup })},
	{"odd", 0, func(s *state, v value, a args) bool { return hasRemainder(s, v, a, intValue(2), 1) }},
	{"even", 0, func(s *state, v value, a args) bool { return hasRemainder(s, v, a, intValue(2), 0) }},
	{"divisibleby 0", 1, func(s *state, v value, a args) bool { return hasRemainder(s, v, a, a.pos[0], 0) }},
	{"lower", 0, func(s *state, v value, _ args) bool { return isCased(s, v, unicode.IsLower, unicode.IsUpper) }},
	{"upper", 0, func(s *state, v value, _ args) bool { return isCased(s, v, unicode.IsUpper, unicode.IsLower) }},
	{"sameas 0", 1, sameAs},
	{"filter", 0, func(s *state, v value, _ args) bool { return namedIn(s, v, s.t.filters[v.s] != nil) }},
	{"test", 0, func(s *state, v value, _ args) bool { return namedIn(s, v, s.t.tests[v.s] != nil) }},
	{"in 0", 1, func(s *state, v value, a args) bool { return containsValue(s, a.line, a.pos[0], v) }},
	{"==|eq|equalto 0", 1, comparison("==")},
	{"!=|ne 0", 1, comparison("!=")},
	{">|gt|greaterthan 0", 1, comparison(">")},
	{">=|ge 0", 1, comparison(">=")},
	{"<|lt|lessthan 0", 1, comparison("<")},
	{"<=|le 0", 1, comparison("<=")},
})

func plainTest(holds func(value) bool) testFunc {
	return func(_ *state, v value, _ args) bool { return holds(v) }
}

func comparison(op string) testFunc {
	return func(s *state, v value, a args) bool { return compareValues(s, a.line, op, v, a.pos[0]) }
}

// isSequence reports whether a value has a length and indices. An undefined value passes, since it
// has both methods.
func isSequence(v value) bool {
	switch v.k {
	case kList, kTuple, kDict, kString, kMarkup, kRange, kUndefined:
		return true
	}
	return false
}

// isIterable reports whether a loop takes the value.
func isIterable(v value) bool { return isSequence(v) || v.k == kView || v.k == kGen || v.k == kLoop }

// hasRemainder is value % by == want, with all that % does to other types.
func hasRemainder(s *state, v value, a args, by value, want int64) bool {
	return equalValues(s, binaryOp(s, a.line, "%", v, by), intValue(want), 0)
}

// isCased is str.islower and str.isupper: no cased character is of the other case, and one is
// there.
func isCased(s *state, v value, want, other func(rune) bool) bool {
	found := false
	for _, r := range toStr(s, v) {
		if r >= 0x80 {
			s.unsupported("the case of a character beyond ASCII")
			return false
		}
		if other(r) {
			return false
		}
		found = found || want(r)
	}
	return found
}

// sameAs is Python's is, for values that the interpreter never shares by itself.
func sameAs(s *state, v value, a args) bool {
	other := a.pos[0]
	single := func(x value) bool { return x.k == kNone || x.k == kBool }
	switch {
	case single(v) || single(other):
		return v.k == other.k && v.n == other.n
	case v.k != other.k:
		return false
	case v.k == kDict || v.k == kList || v.k == kNamespace:
		return v.o == other.o
	}
	s.unsupported("the identity of " + v.typeName())
	return false
}

// namedIn answers the tests filter and test for the names known here. Python knows more.
func namedIn(s *state, v value, known bool) bool {
	if v.k != kString || !known {
		s.unsupported("a test for a name that is not known here")
	}
	return known
}
