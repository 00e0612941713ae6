package openai

import "bytes"

// walkObject checks the rest of an object behind its brace, and returns the index after it. f gets
// the key of each member, still escaped, and the index of its value; it checks the value and
// returns the index after it.
func walkObject(b []byte, i int, f func(key []byte, escaped bool, at int) (end int, err *Error)) (int, *Error) {
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for more := true; more; {
		key, escaped, at, err := scanKey(b, i)
		if err != nil {
			return at, err
		}
		if i, err = f(key, escaped, at); err != nil {
			return i, err
		}
		if i, more, err = nextMember(b, i, '}'); err != nil {
			return i, err
		}
	}
	return i, nil
}

// walkList is walkObject for a list, behind its bracket.
func walkList(b []byte, i int, f func(at int) (end int, err *Error)) (int, *Error) {
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for more := true; more; {
		var err *Error
		if i = skipSpace(b, i); i >= len(b) {
			return i, errTruncated(b)
		}
		if i, err = f(i); err != nil {
			return i, err
		}
		if i, more, err = nextMember(b, i, ']'); err != nil {
			return i, err
		}
	}
	return i, nil
}

// walkBody checks a whole body, which must be an object; f is that of walkObject.
func walkBody(b []byte, f func(key []byte, escaped bool, at int) (end int, err *Error)) *Error {
	i := skipSpace(b, len(b)-len(bytes.TrimPrefix(b, byteOrder)))
	if i >= len(b) {
		return errSyntax("it is empty")
	}
	if b[i] != '{' {
		if _, err := skipValue(b, i, 0); err != nil {
			return err
		}
		return BadRequest("", "The body must be a JSON object.")
	}
	i, err := walkObject(b, i+1, f)
	if err != nil {
		return err
	}
	if i = skipSpace(b, i); i < len(b) {
		return errUnexpected(b, i, "the end after the object")
	}
	return nil
}

// WalkObject checks a whole body and calls f for each member of its object, as [Members] does. The
// error is an *Error. f may have been called for members before the fault.
func WalkObject(body []byte, f func(key []byte, lo, hi int)) error {
	return asError(walkBody(body, func(key []byte, _ bool, at int) (int, *Error) { return visitMember(body, key, at, f) }))
}

func visitMember(b, key []byte, at int, f func(key []byte, lo, hi int)) (int, *Error) {
	end, err := skipValue(b, at, 1)
	if err == nil {
		f(key, at, end)
	}
	return end, err
}

// asError makes an error of e that is nil where e is.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// Members calls f for each member of the JSON object that begins at i (white space allowed): its
// key as it is written, without quotes, and the bounds of its value in b. It returns the index
// after the object. Invalid JSON is found on the way: f may have been called for members before it.
func Members(b []byte, i int, f func(key []byte, lo, hi int)) (end int, err error) {
	if i = skipSpace(b, i); i >= len(b) || b[i] != '{' {
		return i, errSyntax("it is no object")
	}
	end, e := walkObject(b, i+1, func(key []byte, _ bool, at int) (int, *Error) { return visitMember(b, key, at, f) })
	return end, asError(e)
}

// Elements is Members for a list.
func Elements(b []byte, i int, f func(lo, hi int)) (end int, err error) {
	if i = skipSpace(b, i); i >= len(b) || b[i] != '[' {
		return i, errSyntax("it is no list")
	}
	end, e := walkList(b, i+1, func(at int) (int, *Error) {
		end, e := skipValue(b, at, 1)
		if e == nil {
			f(at, end)
		}
		return end, e
	})
	return end, asError(e)
}

// StringEnd returns the index behind the string that begins at i, len(raw) where it has no end.
// Texts are long, and quotes in them rare.
func StringEnd(raw []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		i += n + 1
		escapes := 0
		for raw[i-2-escapes] == '\\' { // ends at the opening quote
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// WalkList calls f with the index of each element of the list at i, which is part of a checked
// body. f returns the index after the element, or 0 where it has not read it: an element that f
// reads is passed once.
func WalkList(b []byte, i int, f func(at int) (end int)) {
	_, _ = walkList(b, i+1, func(at int) (int, *Error) {
		if end := f(at); end > 0 {
			return end, nil
		}
		return skipValue(b, at, 1)
	})
}

// LastMember returns the raw value of the last member of that name in a checked object, and whether
// there is one; nil where it is null, or raw is no object.
func LastMember(raw []byte, name string) (value []byte, there bool) {
	if IsObject(raw) {
		_, _ = Members(raw, 0, func(key []byte, lo, hi int) {
			if string(Unescape(key)) == name {
				value, there = Present(raw[lo:hi:hi]), true
			}
		})
	}
	return value, there
}

// Member is LastMember for a member of which null is as good as none.
func Member(raw []byte, name string) []byte {
	value, _ := LastMember(raw, name)
	return value
}

// Present returns a raw value, nil for null.
func Present(raw []byte) []byte {
	if len(raw) > 0 && raw[0] == 'n' {
		return nil
	}
	return raw
}

// IsString reports whether a raw value is a string.
func IsString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// IsList reports whether a raw value is a list.
func IsList(raw []byte) bool { return len(raw) > 0 && raw[0] == '[' }

// IsObject reports whether a raw value is an object.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// Inside returns a raw string without its quotes.
func Inside(raw []byte) []byte { return raw[1 : len(raw)-1] }

// Is reports whether a raw value is that string. Clients may write any character as an escape.
func Is(raw []byte, text string) bool { return IsString(raw) && string(Unescape(Inside(raw))) == text }

// Into is where the value of a member goes.
type Into struct {
	name  string
	value *[]byte
}

// To names a member of which the value goes to raw.
func To(name string, raw *[]byte) Into { return Into{name, raw} }

// Fields are the members of an object to read.
type Fields []Into

// Take sets the raw value of the member of that name, nil for null, and reports whether it is one
// to read.
func (fs Fields) Take(name, value []byte) bool {
	for i := range fs {
		if f := &fs[i]; f.name == string(name) {
			*f.value = Present(value)
			return true
		}
	}
	return false
}

// Pick takes the members of the object at i in a checked body, and returns the index after it.
func Pick(b []byte, i int, members ...Into) (end int) {
	fs := Fields(members)
	end, _ = Members(b, i, func(key []byte, lo, hi int) {
		if value := b[lo:hi:hi]; !fs.Take(key, value) && bytes.IndexByte(key, '\\') >= 0 {
			fs.Take(Unescape(key), value)
		}
	})
	return end
}
