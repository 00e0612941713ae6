package upstream

import "bytes"

// Results of headEnd other than an end.
const (
	headIncomplete = 0
	headMalformed  = -1 // a line ends in LF alone, which readers understand differently
)

// headEnd returns the index behind the empty line of the head at the beginning of b, and whether
// the name of a field has a space or a tab, before its colon too. fasthttp accepts such fields and
// passes them on; other readers differ about them.
func headEnd(b []byte) (end int, spaced bool) {
	begun := false
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		switch {
		case n < 0:
			return headIncomplete, false
		case n == 0 || b[at+n-1] != '\r':
			return headMalformed, false
		case n > 1 && begun:
			spaced = spaced || isSpaced(b[at:at+n])
		case n > 1:
			begun = true
		case begun: // empty lines before a head are no part of it
			return at + n + 1, spaced
		}
		at += n + 1
	}
}

// isSpaced reports whether a field's name has a space. A space at its beginning does not count: the
// line is a continuation, or fasthttp refuses it.
func isSpaced(line []byte) bool {
	name := line[:max(bytes.IndexByte(line, ':'), 0)]
	return len(name) > 0 && name[0] != ' ' && name[0] != '\t' && (bytes.IndexByte(name, ' ') >= 0 || bytes.IndexByte(name, '\t') >= 0)
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
