package openai

import (
	"strconv"
	"unicode/utf8"
)

// The errors of a body that is not JSON. They name the byte, since bodies are long and made by
// programs, and quote no more of it than one character.

func errSyntax(message string) *Error {
	e := BadRequest("", "The body is not valid JSON: "+message+".")
	e.Code = "invalid_json"
	return e
}

func errTruncated(b []byte) *Error {
	return errSyntax("it ends too early, at byte " + strconv.Itoa(len(b)))
}

func errUnexpected(b []byte, i int, want string) *Error {
	r, _ := utf8.DecodeRune(b[i:])
	return errSyntax("found " + strconv.QuoteRuneToASCII(r) + " at byte " + strconv.Itoa(i) + " instead of " + want)
}

func errDigit(b []byte, i int) *Error {
	if i >= len(b) {
		return errTruncated(b)
	}
	return errUnexpected(b, i, "a digit")
}

func errDepth(i int) *Error {
	return errSyntax("nested deeper than " + strconv.Itoa(maxDepth) + " levels at byte " + strconv.Itoa(i))
}

// errUTF8 finds the first invalid byte of the string that begins at start.
func errUTF8(b []byte, start int) *Error {
	for start < len(b) {
		r, n := utf8.DecodeRune(b[start:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		start += n
	}
	return errSyntax("invalid UTF-8 at byte " + strconv.Itoa(start))
}
