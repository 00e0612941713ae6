package upstream

import "bytes"

// field is one line of a head: where its name and its value are. Its ends are those of the head's bytes, which are shorter than 64 KiB.
type field struct {
	name, colon uint16
	value, end  uint16
	kind        fieldKind
}

type fieldKind uint8

const (
	fieldPasses     fieldKind = iota // goes on as it came
	fieldOurs                        // says what is said again for the next connection, or ends here
	fieldHost                        // of a request
	fieldLength                      // Content-Length
	fieldConnection                  // that says keep-alive
	fieldClose                       // Connection that says close; from here on, requests only may have it
	fieldCoding                      // Transfer-Encoding that says chunked
	fieldExpect                      // Expect that says 100-continue
	fieldTrailer                     // what will come behind the body: nothing that goes on
	fieldOdd                         // a head with it is not plain
)

// maxFields is more than any client sends that is not up to something.
const maxFields = 64

// Bytes of a name (tchar of RFC 9110 5.6.2), and of a value: visible ones, space and tab.
var nameByte, valueByte = headBytes()

func headBytes() (name, value [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		value[c] = true
		name[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
	}
	value['\t'] = true
	return name, value
}

// Where a head that is not there as a plain one stands.
const (
	headShort = 0  // its end is yet to come
	headOdd   = -1 // it is none that we are sure of
)

// appendFields reads the lines of a head from b[at:] up to the empty one. It knows one way of writing them only: names right before their
// colon, lines that end in CR LF and are not continued, nothing but ASCII. end is behind the empty line, or headShort, or headOdd.
func appendFields(dst []field, b []byte, at int) (_ []field, end int) {
	for {
		i := at
		for i < len(b) && nameByte[b[i]] {
			i++
		}
		if i == len(b) {
			return dst, headShort
		}
		if i == at {
			return dst, endOfHead(b[at:], at)
		}
		if b[i] != ':' || len(dst) == maxFields {
			return dst, headOdd
		}
		f := field{name: uint16(at), colon: uint16(i)}
		for i++; i < len(b) && (b[i] == ' ' || b[i] == '\t'); i++ {
		}
		f.value = uint16(i)
		for i < len(b) && valueByte[b[i]] {
			i++
		}
		if i+1 >= len(b) {
			return dst, headShort
		}
		if b[i] != '\r' || b[i+1] != '\n' {
			return dst, headOdd
		}
		at = i + 2
		for i > int(f.value) && (b[i-1] == ' ' || b[i-1] == '\t') {
			i--
		}
		f.end = uint16(i)
		if f.kind = plainKind(kindOf(b[f.name:f.colon]), b[f.value:f.end]); f.kind == fieldOdd {
			return dst, headOdd
		}
		dst = append(dst, f)
	}
}

// endOfHead is where a head ends whose next line has no name.
func endOfHead(b []byte, at int) int {
	switch {
	case b[0] != '\r':
		return headOdd
	case len(b) == 1:
		return headShort
	case b[1] != '\n':
		return headOdd
	}
	return at + 2
}

// plainKind is what a field of a kind is for its value.
func plainKind(kind fieldKind, value []byte) fieldKind {
	switch kind {
	case fieldConnection:
		if fold(value, "close") {
			return fieldClose
		}
		return kindIf(value, "keep-alive", kind, fieldOdd)
	case fieldCoding:
		return kindIf(value, "chunked", kind, fieldOdd)
	case fieldExpect:
		return kindIf(value, "100-continue", kind, fieldOdd)
	}
	return kind
}

// kindOf tells what a field is to a plain head, by its name.
func kindOf(k []byte) fieldKind {
	switch len(k) {
	case 2:
		return kindIf(k, "te", fieldOdd, fieldPasses)
	case 4:
		return kindIf(k, "host", fieldHost, fieldPasses)
	case 6:
		return kindIf(k, "expect", fieldExpect, fieldPasses)
	case 7:
		return kindIf(k, "trailer", fieldTrailer, kindIf(k, "upgrade", fieldOdd, fieldPasses))
	case 8:
		return kindIf(k, "trailers", fieldOdd, fieldPasses)
	case 10:
		return kindIf(k, "connection", fieldConnection, kindIf(k, "keep-alive", fieldOurs, fieldPasses))
	case 14:
		return kindIf(k, "content-length", fieldLength, fieldPasses)
	case 15:
		return kindIf(k, "accept-encoding", fieldOurs, fieldPasses)
	case 17:
		return kindIf(k, "transfer-encoding", fieldCoding, fieldPasses)
	}
	if len(k) > 6 && k[5] == '-' {
		return kindIf(k[:6], "proxy-", fieldOurs, fieldPasses)
	}
	return fieldPasses
}

func kindIf(k []byte, text string, kind, other fieldKind) fieldKind {
	if fold(k, text) {
		return kind
	}
	return other
}

// peekField returns the value of the first field of a name, nil where there is none.
func peekField(b []byte, fields []field, name string) []byte {
	for i := range fields {
		f := &fields[i]
		if int(f.colon-f.name) == len(name) && fold(b[f.name:f.colon], name) {
			return b[f.value:f.end]
		}
	}
	return nil
}

// oneLength returns the value of the only Content-Length, -1 where there is not exactly one or it is not a plain number.
func oneLength(b []byte, fields []field) int {
	n := -1
	for i := range fields {
		f := &fields[i]
		if f.kind != fieldLength {
			continue
		}
		digits := b[f.value:f.end]
		if n >= 0 || len(digits) == 0 || len(digits) > 9 || digits[0] == '0' && len(digits) > 1 {
			return -1
		}
		n = 0
		for _, c := range digits {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
	}
	return n
}

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
