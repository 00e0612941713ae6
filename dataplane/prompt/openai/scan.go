package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds nesting and so the stack. SGLang 0.5.23 parses with orjson, which stops here too:
// deeper JSON fails in the worker anyway.
const maxDepth = 1024

// skipSpace returns the first index at or after i that holds no JSON white space.
func skipSpace(b []byte, i int) int {
	// Fast path: compact JSON, without white space between tokens.
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue checks the value that begins at i and returns the index after it.
func skipValue(b []byte, i, depth int) (int, *Error) {
	if i >= len(b) {
		return i, errTruncated(b)
	}
	switch b[i] {
	case '"':
		end, _, err := scanString(b, i+1)
		return end, err
	case '{':
		return skipObject(b, i+1, depth+1)
	case '[':
		return skipArray(b, i+1, depth+1)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

// skipObject checks the rest of an object behind its brace.
func skipObject(b []byte, i, depth int) (int, *Error) {
	if depth > maxDepth {
		return i, errDepth(i)
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		_, _, i2, err := scanKey(b, i)
		if err != nil {
			return i2, err
		}
		if i, err = skipValue(b, i2, depth); err != nil {
			return i, err
		}
		var more bool
		if i, more, err = nextMember(b, i, '}'); err != nil || !more {
			return i, err
		}
	}
}

// skipArray checks the rest of a list behind its bracket.
func skipArray(b []byte, i, depth int) (int, *Error) {
	if depth > maxDepth {
		return i, errDepth(i)
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err *Error
		if i, err = skipValue(b, skipSpace(b, i), depth); err != nil {
			return i, err
		}
		var more bool
		if i, more, err = nextMember(b, i, ']'); err != nil || !more {
			return i, err
		}
	}
}

// scanKey reads a member's key and colon at i (white space allowed): the key without its quotes
// and still escaped, whether it has escapes, and the index of the value.
func scanKey(b []byte, i int) (key []byte, escaped bool, value int, err *Error) {
	i = skipSpace(b, i)
	if i >= len(b) {
		return nil, false, i, errTruncated(b)
	}
	if b[i] != '"' {
		return nil, false, i, errUnexpected(b, i, "a key in quotes")
	}
	end, escaped, err := scanString(b, i+1)
	if err != nil {
		return nil, false, end, err
	}
	key = b[i+1 : end-1]
	i = skipSpace(b, end)
	if i >= len(b) {
		return nil, false, i, errTruncated(b)
	}
	if b[i] != ':' {
		return nil, false, i, errUnexpected(b, i, "a colon")
	}
	return key, escaped, skipSpace(b, i+1), nil
}

// nextMember reads the byte after a member: a comma, or the closing byte.
func nextMember(b []byte, i int, closing byte) (next int, more bool, err *Error) {
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, false, errTruncated(b)
	}
	switch b[i] {
	case ',':
		return i + 1, true, nil
	case closing:
		return i + 1, false, nil
	}
	return i, false, errUnexpected(b, i, "a comma or "+strconv.QuoteRune(rune(closing)))
}

// scanString checks the rest of a string behind its quote and returns the index after its closing
// quote, and whether it has escapes.
func scanString(b []byte, i int) (end int, escaped bool, err *Error) {
	start, high := i, uint64(0)
	for {
		if escaped { // and more will be: blocks at once
			next, bits, _ := skipBlocks(b, i)
			i, high = next, high|bits
		}
		next, bits, passed := skipPlain(b, i)
		i, high, escaped = next, high|bits, escaped || passed
		if i >= len(b) {
			return i, escaped, errTruncated(b)
		}
		switch b[i] {
		case '"':
			// The bits may be of bytes after the quote: that costs a check, never an error.
			if high&highBits != 0 && !utf8.Valid(b[start:i]) {
				return i, escaped, errUTF8(b, start)
			}
			return i + 1, escaped, nil
		case '\\':
			escaped = true
			if i+1 < len(b) && isShortEscape(b[i+1]) {
				i += 2 // Fast path: text with line breaks and quotes.
				continue
			}
			if i, err = skipEscape(b, i+1); err != nil {
				return i, escaped, err
			}
		default:
			return i, escaped, errUnexpected(b, i, "no control character in a string")
		}
	}
}

// window is the number of bytes that skipWindows searches at once. Two searches of it cost about as
// much as eight-byte steps through a fifth of it; a longer window would be searched in vain too
// often where escapes are frequent.
const window = 256

// skipPlain returns the first index at or after i that ends a string's plain bytes: a quote, a
// backslash, a control character or the end. The bits of all bytes passed are in high. Escapes may
// have been passed too.
func skipPlain(b []byte, i int) (next int, high uint64, escaped bool) {
	for near := i + window/8; i+8 <= len(b) && i < near; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		high |= w
		if m := stopMask(w); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, high, false
		}
	}
	// Fast path: a long text.
	i, seen, escaped := skipBlocks(b, i)
	high |= seen
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		high |= w
		if m := stopMask(w); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, high, escaped
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		high |= uint64(b[i])
		i++
	}
	return i, high, escaped
}

// skipWindows passes plain bytes from i on, in windows, and returns the place of the first one that
// has anything else.
func skipWindows(b []byte, i int) (next int, high uint64) {
	for i+window <= len(b) {
		// The vector code of bytes.IndexByte pays.
		if bytes.IndexByte(b[i:i+window], '"') >= 0 || bytes.IndexByte(b[i:i+window], '\\') >= 0 {
			break
		}
		low, bits := foldWindow((*[window]byte)(b[i:]))
		if low&highBits != 0 {
			break
		}
		high |= bits
		i += window
	}
	return i, high
}

// foldWindow folds a window into one word: low has a high bit set if any byte is below space, high
// if any is not ASCII.
func foldWindow(b *[window]byte) (low, high uint64) {
	for i := 0; i < window; i += 32 {
		w0 := binary.LittleEndian.Uint64(b[i:])
		w1 := binary.LittleEndian.Uint64(b[i+8:])
		w2 := binary.LittleEndian.Uint64(b[i+16:])
		w3 := binary.LittleEndian.Uint64(b[i+24:])
		low |= (w0-lowBits*' ')&^w0 | (w1-lowBits*' ')&^w1 | (w2-lowBits*' ')&^w2 | (w3-lowBits*' ')&^w3
		high |= w0 | w1 | w2 | w3
	}
	return low, high
}

// lowBits and highBits hold the lowest and the highest bit of each byte of a word.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// stopMask has a high bit set in the first byte of w that is a quote, a backslash or below space;
// bytes above that one may be marked wrongly (the borrow), bytes below never.
func stopMask(w uint64) uint64 {
	quote, slash := w^(lowBits*'"'), w^(lowBits*'\\')
	return ((w-lowBits*' ')&^w | (quote-lowBits)&^quote | (slash-lowBits)&^slash) & highBits
}

// isShortEscape reports whether c ends an escape of two bytes.
func isShortEscape(c byte) bool {
	const low = 1<<'"' | 1<<'/'
	const high = 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	return c < 64 && low>>c&1 != 0 || c >= 64 && high>>(c-64)&1 != 0
}

// skipEscape checks an escape behind its backslash.
func skipEscape(b []byte, i int) (int, *Error) {
	if i >= len(b) {
		return i, errTruncated(b)
	}
	switch c := b[i]; {
	case isShortEscape(c):
		return i + 1, nil
	case c == 'u':
		for k := i + 1; k < i+5; k++ {
			if k >= len(b) {
				return k, errTruncated(b)
			}
			if hexDigit(b[k]) < 0 {
				return k, errUnexpected(b, k, "a hex digit")
			}
		}
		return i + 5, nil
	}
	return i, errUnexpected(b, i, "an escape that JSON has")
}

func skipLiteral(b []byte, i int, word string) (int, *Error) {
	for k := range len(word) {
		if i+k >= len(b) {
			return i, errTruncated(b)
		}
		if b[i+k] != word[k] {
			return i + k, errUnexpected(b, i+k, word)
		}
	}
	return i + len(word), nil
}

// skipNumber checks a number. Anything that begins no value ends here too.
func skipNumber(b []byte, i int) (int, *Error) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return i, errTruncated(b)
	case b[i] == '0':
		i++
	case isDigit(b[i]):
		i = skipDigits(b, i)
	default:
		return i, errUnexpected(b, i, "a value")
	}
	if i < len(b) && b[i] == '.' {
		k := skipDigits(b, i+1)
		if k == i+1 {
			return k, errDigit(b, k)
		}
		i = k
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		k := skipDigits(b, i)
		if k == i {
			return k, errDigit(b, k)
		}
		i = k
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// hexDigit returns the value of a hex digit, -1 for other bytes.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
