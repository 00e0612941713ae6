package openai

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape returns the content of a checked string (without quotes) with its escapes resolved.
// Without escapes it is raw itself; else it is written to buf, which is returned for reuse.
func unescape(buf, raw []byte) (text, grown []byte) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, buf
	}
	buf = AppendUnescaped(buf[:0], raw)
	return buf, buf
}

// Unescape returns the content of a checked JSON string, given without its quotes, with its escapes
// resolved: raw itself where it has none.
func Unescape(raw []byte) []byte {
	text, _ := unescape(nil, raw)
	return text
}

// AppendUnescaped appends the content of a checked string (without quotes) with its escapes
// resolved.
func AppendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		var n int
		dst, n = appendEscape(dst, raw[i+1:])
		raw = raw[i+1+n:]
	}
}

// appendEscape resolves one escape behind its backslash and returns its length in raw.
func appendEscape(dst, raw []byte) (out []byte, n int) {
	switch raw[0] {
	case 'b':
		return append(dst, '\b'), 1
	case 'f':
		return append(dst, '\f'), 1
	case 'n':
		return append(dst, '\n'), 1
	case 'r':
		return append(dst, '\r'), 1
	case 't':
		return append(dst, '\t'), 1
	case 'u':
		r, n := decodeHex(raw[1:]), 5
		if utf16.IsSurrogate(r) {
			r, n = decodePair(r, raw)
		}
		return utf8.AppendRune(dst, r), n
	}
	return append(dst, raw[0]), 1
}

// decodePair joins a surrogate with the one escaped after it; alone it reads as U+FFFD.
func decodePair(high rune, raw []byte) (r rune, n int) {
	if len(raw) < 11 || raw[5] != '\\' || raw[6] != 'u' {
		return utf8.RuneError, 5
	}
	if r = utf16.DecodeRune(high, decodeHex(raw[7:])); r == utf8.RuneError {
		return r, 5
	}
	return r, 11
}

func decodeHex(raw []byte) rune {
	var r rune
	for _, c := range raw[:4] {
		r = r<<4 | rune(hexDigit(c))
	}
	return r
}
