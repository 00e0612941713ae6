package chattemplate

import (
	"strings"
	"unicode"
)

// testFunc is a test of jinja2/tests.py.
type testFunc func(s *state, v value, a args) bool

// tests are the tests that are rendered here. A template with another one is refused when it is
// compiled, or when its branch runs.
var tests = allTests()

// allTests makes the table: tests by name, and the operators under all their names.
func allTests() map[string]testFunc {
	out := map[string]testFunc{
		"defined":   plainTest(func(v value) bool { return v.k != kUndefined }),
		"undefined": plainTest(func(v value) bool { return v.k == kUndefined }),
		"none":      plainTest(func(v value) bool { return v.k == kNone }),
		"boolean":   plainTest(func(v value) bool { return v.k == kBool }),
		"false":     plainTest(func(v value) bool { return v.k == kBool && v.n == 0 }),
		"true":      plainTest(func(v value) bool { return v.k == kBool && v.n != 0 }),
		"integer":   plainTest(func(v value) bool { return v.k == kInt || v.k == kBig }),
		"float":     plainTest(func(v value) bool { return v.k == kFloat }),
		"number":    plainTest(func(v value) bool { return v.isNum() || v.k == kBig }),
		"string":    plainTest(value.isStr),
		"mapping":   plainTest(func(v value) bool { return v.k == kDict }),
		"sequence":  plainTest(isSequence),
		"iterable":  plainTest(isIterable),
		"callable":  plainTest(func(v value) bool { return v.k >= kMacro || v.k == kUndefined || v.k == kLoop }),
		"escaped":   plainTest(func(v value) bool { return v.k == kMarkup }),
		"odd":       func(s *state, v value, a args) bool { return hasRemainder(s, v, a, intValue(2), 1) },
		"even":      func(s *state, v value, a args) bool { return hasRemainder(s, v, a, intValue(2), 0) },
		"divisibleby": func(s *state, v value, a args) bool {
			other, ok := otherOperand(s, a)
			return ok && hasRemainder(s, v, args{line: a.line}, other, 0)
		},
		"lower":  func(s *state, v value, a args) bool { return isCased(s, v, a, unicode.IsLower, unicode.IsUpper) },
		"upper":  func(s *state, v value, a args) bool { return isCased(s, v, a, unicode.IsUpper, unicode.IsLower) },
		"sameas": sameAs,
		"filter": func(s *state, v value, a args) bool { return namedIn(s, v, a, s.t.filters[v.s] != nil) },
		"test":   func(s *state, v value, a args) bool { return namedIn(s, v, a, s.t.tests[v.s] != nil) },
		"in": func(s *state, v value, a args) bool {
			other, ok := otherOperand(s, a)
			return ok && containsValue(s, a.line, other, v)
		},
	}
	for op, names := range map[string]string{
		"==": "== eq equalto", "!=": "!= ne", ">": "> gt greaterthan", ">=": ">= ge", "<": "< lt lessthan", "<=": "<= le",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = func(s *state, v value, a args) bool {
				other, ok := otherOperand(s, a)
				return ok && compareValues(s, a.line, op, v, other)
			}
		}
	}
	return out
}

// plainTest makes a test of a predicate without arguments.
func plainTest(holds func(value) bool) testFunc {
	return func(s *state, v value, a args) bool { return bindArgs(s, a, "test", 0, nil, nil) && holds(v) }
}

// otherOperand returns the only argument of a test.
func otherOperand(s *state, a args) (value, bool) {
	var out [1]value
	ok := bindArgs(s, a, "test", 1, []string{""}, out[:])
	return out[0], ok
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
	if !bindArgs(s, a, "test", 0, nil, nil) {
		return false
	}
	return equalValues(s, binaryOp(s, a.line, "%", v, by), intValue(want), 0)
}

// isCased is str.islower and str.isupper: no cased character is of the other case, and one is
// there.
func isCased(s *state, v value, a args, want, other func(rune) bool) bool {
	if !bindArgs(s, a, "test", 0, nil, nil) {
		return false
	}
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
	other, ok := otherOperand(s, a)
	if !ok {
		return false
	}
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
func namedIn(s *state, v value, a args, known bool) bool {
	if !bindArgs(s, a, "test", 0, nil, nil) {
		return false
	}
	if v.k != kString || !known {
		s.unsupported("a test for a name that is not known here")
	}
	return known
}
