package chattemplate

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
