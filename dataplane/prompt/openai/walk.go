package openai

// Members calls f for each member of the JSON object that begins at i (white space allowed): its
// key as it is written, without quotes, and the bounds of its value in b. It returns the index
// after the object. Invalid JSON is found on the way: f may have been called for members before it.
func Members(b []byte, i int, f func(key []byte, lo, hi int)) (end int, err error) {
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '{' {
		return i, errSyntax("it is no object")
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		key, _, at, e := scanKey(b, i)
		if e != nil {
			return at, e
		}
		if i, e = skipValue(b, at, 1); e != nil {
			return i, e
		}
		f(key, at, i)
		var more bool
		if i, more, e = nextMember(b, i, '}'); e != nil {
			return i, e
		}
		if !more {
			return i, nil
		}
	}
}

// FindMember calls f for each member of the JSON object that b begins with, as far as it has come,
// until f reports true: its key as in Members, and all that has come from its value on. ended says
// that the object has no further members.
func FindMember(b []byte, f func(key, rest []byte) bool) (found, ended bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false, false
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return false, true
	}
	for more := true; more; {
		key, _, at, err := scanKey(b, i)
		if err != nil {
			return false, false
		}
		if f(key, b[min(at, len(b)):]) {
			return true, false
		}
		if i, err = skipValue(b, at, 1); err != nil {
			return false, false
		}
		if i, more, err = nextMember(b, i, '}'); err != nil {
			return false, false
		}
	}
	return false, true
}

// Elements is Members for a list.
func Elements(b []byte, i int, f func(lo, hi int)) (end int, err error) {
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != '[' {
		return i, errSyntax("it is no list")
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		at := skipSpace(b, i)
		var e *Error
		if i, e = skipValue(b, at, 1); e != nil {
			return i, e
		}
		f(at, i)
		var more bool
		if i, more, e = nextMember(b, i, ']'); e != nil {
			return i, e
		}
		if !more {
			return i, nil
		}
	}
}
