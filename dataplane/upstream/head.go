package upstream

import "bytes"

// nameByte has the bytes of a field's name (tchar of RFC 9110 5.6.2).
var nameByte = nameBytes()

func nameBytes() (name [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		name[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || bytes.IndexByte(tokenMarks, byte(c)) >= 0
	}
	return name
}

// Where a head that is not there as a whole stands.
const (
	headShort = 0  // its end is yet to come
	headOdd   = -1 // a line of it does not end with CRLF
)

// wholeHead is behind the head at the beginning of b, whatever is written in it: behind its empty line, or headShort. It is headOdd where a line
// ends in LF alone, which some readers take for an end and others do not.
func wholeHead(b []byte) (end int) {
	begun := false
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		switch {
		case n < 0:
			return headShort
		case n == 0 || b[at+n-1] != '\r':
			return headOdd
		case n > 1:
			begun = true
		case begun: // empty lines before a request are none of its
			return at + n + 1
		}
		at += n + 1
	}
}

// spacedName reports whether the name of a field in a whole head has a space or a tab, before its colon too. fasthttp takes such fields and
// passes them on; what others make of them differs.
func spacedName(head []byte) bool {
	first := true
	for line := range bytes.Lines(head) {
		if first {
			first = len(line) <= len("\r\n") // empty lines before
			continue
		}
		name, _, ok := bytes.Cut(line, colon)
		switch {
		case !ok || len(name) == 0 || name[0] == ' ' || name[0] == '\t': // goes on from the line before, or is nothing that fasthttp takes
		case bytes.ContainsAny(name, " \t"):
			return true
		}
	}
	return false
}
