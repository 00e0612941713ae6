package openai

import "bytes"

// WalkObject checks a whole body and calls f for each member of its object, as [Members] does. The
// error is an *Error. f may have been called for members before the fault.
func WalkObject(body []byte, f func(key []byte, lo, hi int)) error {
	i := skipSpace(body, len(body)-len(bytes.TrimPrefix(body, byteOrder)))
	if i >= len(body) {
		return errSyntax("it is empty")
	}
	if body[i] != '{' {
		if _, err := skipValue(body, i, 0); err != nil {
			return err
		}
		return BadRequest("", "The body must be a JSON object.")
	}
	end, err := Members(body, i, f)
	if err != nil {
		return err
	}
	if end = skipSpace(body, end); end < len(body) {
		return errUnexpected(body, end, "the end after the object")
	}
	return nil
}

// WalkList calls f with the index of each element of the list at i, which is part of a checked
// body. f returns the index after the element, or 0 where it has not read it: an element that f
// reads is passed once.
func WalkList(b []byte, i int, f func(at int) (end int)) {
	if i = skipSpace(b, i+1); i >= len(b) || b[i] == ']' {
		return
	}
	for more := true; more; {
		at := skipSpace(b, i)
		if i = f(at); i == 0 {
			i, _ = skipValue(b, at, 1)
		}
		var err *Error
		if i, more, err = nextMember(b, i, ']'); err != nil {
			return
		}
	}
}

// Unescape returns the content of a checked JSON string, given without its quotes, with its escapes
// resolved: raw itself where it has none.
func Unescape(raw []byte) []byte {
	text, _ := unescape(nil, raw)
	return text
}
