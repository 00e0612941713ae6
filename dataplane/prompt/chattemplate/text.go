package chattemplate

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isPySpace reports whether str.isspace holds for a code point, which is the space of strip and
// split.
func isPySpace(r rune) bool {
	return r == ' ' || r >= 0x09 && r <= 0x0d || r >= 0x1c && r <= 0x1f || r >= 0x80 && unicode.IsSpace(r)
}

// toStr is Python's str(v).
func toStr(s *state, v value) string {
	switch v.k {
	case kString, kMarkup, kBig:
		return v.s
	case kUndefined, kMissing:
		return ""
	case kNone:
		return "None"
	case kBool:
		if v.n != 0 {
			return "True"
		}
		return "False"
	}
	s.text.room(32)
	from := len(s.text.buf)
	if v.k == kInt {
		s.text.buf = strconv.AppendInt(s.text.buf, v.n, 10)
		return view(s.text.buf[from:])
	}
	out := appendRepr(s, s.text.buf[from:], v, 0)
	if !s.charge(len(out)) {
		return ""
	}
	return s.keep(out)
}

// appendRepr appends Python's repr(v), which for all but strings is str(v).
func appendRepr(s *state, dst []byte, v value, depth int) []byte {
	if depth > maxDepth {
		s.unsupported("a value nested too deep")
		return dst
	}
	switch v.k {
	case kUndefined, kMissing:
		return append(dst, "Undefined"...)
	case kNone, kBool, kBig:
		return append(dst, toStr(s, v)...)
	case kInt:
		return strconv.AppendInt(dst, v.n, 10)
	case kFloat:
		return appendFloat(dst, v.float())
	case kString:
		if !s.charge(len(v.s)) {
			return dst
		}
		return appendQuoted(s, dst, v.s)
	case kMarkup:
		if !s.charge(len(v.s)) {
			return dst
		}
		return append(appendQuoted(s, append(dst, "Markup("...), v.s), ')')
	case kList:
		return append(appendReprList(s, append(dst, '['), v.o.items, depth), ']')
	case kTuple:
		dst = appendReprList(s, append(dst, '('), v.o.items, depth)
		if len(v.o.items) == 1 {
			dst = append(dst, ',')
		}
		return append(dst, ')')
	case kDict:
		return append(appendReprDict(s, append(dst, '{'), v.o, depth), '}')
	case kRange:
		return appendReprRange(dst, v.o)
	case kNamespace:
		dst = append(appendReprDict(s, append(dst, "<Namespace {"...), v.o, depth), '}')
		return append(dst, '>')
	case kView:
		dst = append(append(dst, v.typeName()...), "(["...)
		it := iterate(s, 0, v)
		return append(appendReprList(s, dst, it.all(s), depth), "])"...)
	}
	s.unsupported("printing a " + v.typeName())
	return dst
}

// appendReprList appends elements with their representation, not their text: strings are quoted
// inside of lists.
func appendReprList(s *state, dst []byte, items []value, depth int) []byte {
	if !s.step(len(items)) {
		return dst
	}
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendRepr(s, dst, item, depth+1)
	}
	return dst
}

// appendReprDict appends a dict's entries in the order in which they were set.
func appendReprDict(s *state, dst []byte, o *object, depth int) []byte {
	if !s.step(len(o.keys)) {
		return dst
	}
	for i, k := range o.keys {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(appendRepr(s, dst, k, depth+1), ": "...)
		dst = appendRepr(s, dst, o.items[i], depth+1)
	}
	return dst
}

// appendReprRange appends range(a, b), and the step if it is not 1.
func appendReprRange(dst []byte, o *object) []byte {
	dst = strconv.AppendInt(append(dst, "range("...), o.arg[0], 10)
	dst = strconv.AppendInt(append(dst, ", "...), o.arg[1], 10)
	if o.arg[2] != 1 {
		dst = strconv.AppendInt(append(dst, ", "...), o.arg[2], 10)
	}
	return append(dst, ')')
}

// appendFloat appends float.__repr__: the shortest digits that read back, with an exponent below
// 1e-4 and from 1e16 on.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'f' && bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendQuoted appends str.__repr__.
func appendQuoted(s *state, dst []byte, text string) []byte {
	q := byte('\'')
	if strings.IndexByte(text, '\'') >= 0 && strings.IndexByte(text, '"') < 0 {
		q = '"'
	}
	dst = append(dst, q)
	for _, r := range text {
		switch {
		case r == rune(q) || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r < ' ' || r == 0x7f:
			dst = appendHex(append(dst, '\\', 'x'), r, 2)
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		default:
			dst = appendQuotedRune(s, dst, r)
		}
	}
	return append(dst, q)
}

// appendQuotedRune appends a code point beyond ASCII as it is if Python holds it for printable, and
// else escaped.
func appendQuotedRune(s *state, dst []byte, r rune) []byte {
	if unsettled(r) {
		s.unsupported("a character that not every Python knows")
	}
	switch {
	case unicode.IsPrint(r):
		return utf8.AppendRune(dst, r)
	case r <= 0xff:
		return appendHex(append(dst, '\\', 'x'), r, 2)
	case r <= 0xffff:
		return appendHex(append(dst, '\\', 'u'), r, 4)
	}
	return appendHex(append(dst, '\\', 'U'), r, 8)
}

// appendHex appends width hexadecimal digits.
func appendHex(dst []byte, r rune, width int) []byte {
	for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[r>>shift&15])
	}
	return dst
}

// mapCase is upper, lower, and other maps of single code points. Python maps some to several, or by
// their surroundings: letters with two cases are supported in Latin and Cyrillic alone.
func mapCase(s *state, text string, to func(rune) rune) string {
	for _, r := range text {
		one := r < 0x180 && r != 'ß' && r != 'İ' && r != 'ŉ' || r >= 0x400 && r < 0x530
		if !one && (unicode.IsLetter(r) && !unicode.Is(unicode.Lo, r) || unicode.IsMark(r) || unsettled(r)) {
			s.unsupported("the case of a character beyond ASCII")
			return text
		}
	}
	if !s.charge(len(text)) {
		return ""
	}
	return strings.Map(to, text)
}

func upperCase(s *state, text string) string { return mapCase(s, text, unicode.ToUpper) }

func lowerCase(s *state, text string) string { return mapCase(s, text, unicode.ToLower) }

func capitalize(s *state, text string) string {
	if text == "" {
		return ""
	}
	_, n := utf8.DecodeRuneInString(text)
	return s.concat(mapCase(s, text[:n], unicode.ToTitle), lowerCase(s, text[n:]))
}
