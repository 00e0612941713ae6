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

// HasMember reports whether the JSON object that b begins with has a member whose key is one of
// keys, as far as it has come. ended says that it has no further members.
func HasMember(b []byte, keys ...string) (has, ended bool) {
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
		for _, k := range keys {
			if string(key) == k {
				return true, false
			}
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
