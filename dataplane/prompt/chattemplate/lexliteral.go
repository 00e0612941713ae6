package chattemplate

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// number consumes an integer or a float, as the two regular expressions of Jinja's lexer would.
func (l *lexer) number(rest string) {
	n := digits(rest)
	whole := n
	if n < len(rest) && rest[n] == '.' {
		if m := digits(rest[n+1:]); m > 0 {
			n += 1 + m
		}
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if d := digits(rest[m:]); d > 0 {
			n = m + d
		}
	}
	// The lexer refuses a float behind a dot, so that a.0.1 is two subscripts.
	if n > whole && (l.pos == 0 || l.src[l.pos-1] != '.') {
		l.emit(tokFloat, strings.ReplaceAll(rest[:n], "_", ""))
		l.take(n)
		return
	}
	text := strings.ReplaceAll(rest[:whole], "_", "")
	if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != "" {
		l.fail("leading zeros in " + text)
	}
	l.emit(tokInt, text)
	l.take(whole)
}

// digits returns the length of a run of digits that single underscores may part.
func digits(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '_' && n > 0 && n+1 < len(s) && isDigit(s[n-1]) && isDigit(s[n+1])) {
		n++
	}
	return n
}

// isDigit knows ASCII only; Jinja takes other digits as well, and no template was seen to use them.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (l *lexer) quoted(rest string) {
	for n := 1; n < len(rest); n++ {
		switch rest[n] {
		case '\\':
			n++
		case rest[0]:
			l.emit(tokString, l.unescape(rest[1:n]))
			l.take(n + 1)
			return
		}
	}
	l.fail("unexpected char " + strconv.Quote(rest[:1]))
}

// unescape decodes the escapes of a string literal as Python's unicode-escape codec does.
func (l *lexer) unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		if n := strings.IndexByte("\\'\"abfnrtv", s[i]); n >= 0 {
			out = append(out, "\\'\"\a\b\f\n\r\t\v"[n])
			continue
		}
		width, base := 0, 16
		switch c := s[i]; {
		case c == '\n':
			continue
		case c >= '0' && c <= '7':
			base = 8
			for width < 3 && i+width < len(s) && s[i+width] >= '0' && s[i+width] <= '7' {
				width++
			}
			i--
		case c == 'x':
			width = 2
		case c == 'u':
			width = 4
		case c == 'U':
			width = 8
		case c == 'N':
			l.fail("named escapes are not known here")
			return ""
		default: // Python keeps the backslash of an escape that it does not know.
			out = append(out, '\\', c)
			continue
		}
		if i+1+width > len(s) {
			l.fail("truncated escape in a string")
			return ""
		}
		code, err := strconv.ParseUint(s[i+1:i+1+width], base, 32)
		if err != nil || !utf8.ValidRune(rune(code)) {
			l.fail("invalid escape in a string")
			return ""
		}
		out = utf8.AppendRune(out, rune(code))
		i += width
	}
	return string(out)
}
