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
