package upstream

import "bytes"

// Results of headEnd other than an end.
const (
	headIncomplete = 0
	headMalformed  = -1 // a line ends in LF alone, which readers understand differently
)

// headEnd returns the index behind the empty line of the head at the beginning of b.
func headEnd(b []byte) (end int) {
	begun := false
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		switch {
		case n < 0:
			return headIncomplete
		case n == 0 || b[at+n-1] != '\r':
			return headMalformed
		case n > 1:
			begun = true
		case begun: // empty lines before a head are no part of it
			return at + n + 1
		}
		at += n + 1
	}
}

// hasSpacedName reports whether the name of a field in a whole head has a space or a tab,
// before its colon too. fasthttp accepts such fields and passes them on; other readers differ
// about them.
func hasSpacedName(head []byte) bool {
	first := true
	for line := range bytes.Lines(head) {
		if first {
			first = len(line) <= len("\r\n") // empty lines before
			continue
		}
		name, _, ok := bytes.Cut(line, colon)
		switch {
		case !ok || len(name) == 0 || name[0] == ' ' || name[0] == '\t':
			// A continuation, or refused by fasthttp.
		case bytes.IndexByte(name, ' ') >= 0, bytes.IndexByte(name, '\t') >= 0:
			return true
		}
	}
	return false
}

// hasCoding reports whether a head has a Transfer-Encoding.
func hasCoding(head []byte) bool {
	for line := range bytes.Lines(head) {
		if name, _, ok := bytes.Cut(line, colon); ok && fold(name, "transfer-encoding") {
			return true
		}
	}
	return false
}
