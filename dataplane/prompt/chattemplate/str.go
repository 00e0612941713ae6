package chattemplate

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isPySpace reports whether str.isspace holds for a code point: what strip and split take as space.
func isPySpace(r rune) bool {
	return r == ' ' || r >= 0x09 && r <= 0x0d || r >= 0x1c && r <= 0x1f || r >= 0x80 && unicode.IsSpace(r)
}

// str is Python's str(v).
func (s *state) str(v value) string {
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
	out := s.repr(s.text.buf[from:], v, 0)
	if !s.charge(len(out)) {
		return ""
	}
	return s.keep(out)
}

// keep makes a string of bytes that were appended to the end of the slab, or elsewhere if they did not fit.
func (s *state) keep(out []byte) string {
	if from := len(s.text.buf); len(out) <= cap(s.text.buf)-from && len(out) > 0 && &out[0] == &s.text.buf[:from+1][from] {
		s.text.buf = s.text.buf[:from+len(out)]
	}
	return view(out)
}

// write appends str(v) to the output.
func (s *state) write(v value) {
	switch v.k {
	case kString, kMarkup, kBig:
		s.out = append(s.out, v.s...)
	case kInt:
		s.out = strconv.AppendInt(s.out, v.n, 10)
	case kUndefined, kMissing:
	case kNone, kBool:
		s.out = append(s.out, s.str(v)...)
	default:
		s.out = s.repr(s.out, v, 0)
	}
}

// repr appends Python's repr(v), which for all but strings is str(v).
func (s *state) repr(dst []byte, v value, depth int) []byte {
	if depth > maxDepth {
		s.unsure("a value nested too deep")
		return dst
	}
	switch v.k {
	case kUndefined, kMissing:
		return append(dst, "Undefined"...)
	case kNone, kBool, kBig:
		return append(dst, s.str(v)...)
	case kInt:
		return strconv.AppendInt(dst, v.n, 10)
	case kFloat:
		return appendFloat(dst, v.float())
	case kString:
		return s.quote(dst, v.s)
	case kMarkup:
		return append(s.quote(append(dst, "Markup("...), v.s), ')')
	case kList:
		return append(s.reprList(append(dst, '['), v.o.items, depth), ']')
	case kTuple:
		dst = s.reprList(append(dst, '('), v.o.items, depth)
		if len(v.o.items) == 1 {
			dst = append(dst, ',')
		}
		return append(dst, ')')
	case kDict:
		return append(s.reprDict(append(dst, '{'), v.o, depth), '}')
	case kRange:
		return s.reprRange(dst, v.o)
	case kNamespace:
		dst = append(s.reprDict(append(dst, "<Namespace {"...), v.o, depth), '}')
		return append(dst, '>')
	case kView:
		dst = append(append(dst, v.typeName()...), "(["...)
		it := s.iterate(0, v)
		return append(s.reprList(dst, it.all(s), depth), "])"...)
	}
	s.unsure("printing a " + v.typeName())
	return dst
}

// reprList appends elements with their representation, not their text: strings are quoted inside of lists.
func (s *state) reprList(dst []byte, items []value, depth int) []byte {
	if !s.step(len(items)) {
		return dst
	}
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = s.repr(dst, item, depth+1)
	}
	return dst
}

// reprDict appends a dict's entries in the order in which they were set.
func (s *state) reprDict(dst []byte, o *object, depth int) []byte {
	if !s.step(len(o.keys)) {
		return dst
	}
	for i, k := range o.keys {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(s.repr(dst, k, depth+1), ": "...)
		dst = s.repr(dst, o.items[i], depth+1)
	}
	return dst
}

// reprRange appends range(a, b), and the step if it is not 1.
func (s *state) reprRange(dst []byte, o *object) []byte {
	dst = strconv.AppendInt(append(dst, "range("...), o.arg[0], 10)
	dst = strconv.AppendInt(append(dst, ", "...), o.arg[1], 10)
	if o.arg[2] != 1 {
		dst = strconv.AppendInt(append(dst, ", "...), o.arg[2], 10)
	}
	return append(dst, ')')
}

// appendFloat appends float.__repr__: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
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

// quote appends str.__repr__.
func (s *state) quote(dst []byte, text string) []byte {
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
			dst = s.quoteRune(dst, r)
		}
	}
	return append(dst, q)
}

// quoteRune appends a code point beyond ASCII as it is if Python holds it for printable, and else escaped.
func (s *state) quoteRune(dst []byte, r rune) []byte {
	if unsettled(r) {
		s.unsure("a character that not every Python knows")
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

// cased is upper, lower, and what else maps single code points. What Python maps to several, or by its surroundings, is not done here.
func (s *state) cased(text string, to func(rune) rune) string {
	if ascii(text) {
		same := true
		for i := 0; i < len(text) && same; i++ {
			same = to(rune(text[i])) == rune(text[i])
		}
		if same {
			return text
		}
	}
	for _, r := range text {
		if r >= utf8.RuneSelf && (unicode.Is(specialCase, r) || unsettled(r)) {
			s.unsure("the case of a character beyond ASCII")
			return text
		}
	}
	if !s.charge(len(text)) {
		return ""
	}
	return strings.Map(to, text)
}

// upper is str.upper.
func (s *state) upper(text string) string { return s.cased(text, unicode.ToUpper) }

// lower is str.lower.
func (s *state) lower(text string) string { return s.cased(text, unicode.ToLower) }

// capitalize is str.capitalize.
func (s *state) capitalize(text string) string {
	if text == "" {
		return ""
	}
	_, n := utf8.DecodeRuneInString(text)
	return s.concat(s.cased(text[:n], unicode.ToTitle), s.lower(text[n:]))
}
