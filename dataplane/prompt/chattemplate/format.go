package chattemplate

import (
	"strconv"
	"strings"
)

// formatPercent is Python's text % arg for the conversions s, r, d, i and f with plain widths;
// others are not done here.
func formatPercent(s *state, line int, text string, arg value) value {
	var list []value
	switch arg.k {
	case kTuple:
		list = arg.o.items
	case kMarkup:
		return s.unsupported("% with Markup")
	default:
		list = []value{arg}
	}
	if !s.charge(2 * len(text)) {
		return undefValue
	}
	var out []byte
	used := 0
	for {
		at := strings.IndexByte(text, '%')
		if at < 0 {
			break
		}
		out = append(out, text[:at]...)
		spec, rest, ok := conversion(text[at+1:])
		text = rest
		if !ok {
			return s.unsupported("a conversion of %")
		}
		if spec.verb == '%' {
			out = append(out, '%')
			continue
		}
		if used == len(list) {
			return s.raise(line, "not enough arguments for format string")
		}
		v := list[used]
		used++
		if spec.key != "" {
			if arg.k != kDict {
				return s.raise(line, "format requires a mapping")
			}
			if v, ok = arg.o.get(spec.key); !ok {
				return s.raise(line, "no key %s", spec.key)
			}
			used--
		}
		out = appendConversion(s, line, out, spec, v)
		if s.err != nil || !s.charge(len(out)) {
			return undefValue
		}
	}
	// A value with subscripts that is neither a tuple nor a string counts as a mapping, of which
	// some keys may stay unused.
	mapping := arg.k == kDict || arg.k == kList || arg.k == kRange || arg.k == kUndefined
	if used < len(list) && !mapping {
		return s.raise(line, "not all arguments converted during string formatting")
	}
	return strValue(string(append(out, text...)))
}

// spec is one conversion of %.
type spec struct {
	key    string
	zero   bool
	left   bool
	width  int
	digits int // behind the point; -1 without one
	verb   byte
}

// conversion parses a conversion, behind its %.
func conversion(text string) (sp spec, rest string, ok bool) {
	sp.digits = -1
	if strings.HasPrefix(text, "(") {
		end := strings.IndexByte(text, ')')
		if end < 2 || strings.IndexByte(text[1:end], '(') >= 0 {
			return sp, "", false
		}
		sp.key, text = text[1:end], text[end+1:]
	}
	for text != "" && (text[0] == '0' || text[0] == '-') {
		sp.zero = sp.zero || text[0] == '0'
		sp.left = sp.left || text[0] == '-'
		text = text[1:]
	}
	var fits bool
	if sp.width, text, fits = leadingInt(text); !fits {
		return sp, "", false
	}
	if strings.HasPrefix(text, ".") {
		if sp.digits, text, fits = leadingInt(text[1:]); !fits {
			return sp, "", false
		}
	}
	if text == "" || strings.IndexByte("srdif%", text[0]) < 0 {
		return sp, "", false
	}
	sp.verb = text[0]
	return sp, text[1:], sp.verb != '%' || sp == spec{verb: '%', digits: -1}
}

// maxWidth bounds widths and precisions of formats.
const maxWidth = 1000

// leadingInt reads digits; fits is false beyond maxWidth.
func leadingInt(text string) (n int, rest string, fits bool) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	if end == 0 {
		return 0, text, true
	}
	n, err := strconv.Atoi(text[:end])
	return n, text[end:], err == nil && n <= maxWidth
}

func appendConversion(s *state, line int, out []byte, sp spec, v value) []byte {
	var text string
	switch sp.verb {
	case 's', 'r':
		text = toStr(s, v)
		if sp.verb == 'r' {
			text = string(appendRepr(s, nil, v, 0))
		}
		if sp.digits >= 0 {
			text = text[:offset(text, min(sp.digits, runes(text)))]
		}
		sp.zero = false
	case 'd', 'i':
		switch {
		case v.isInt() && sp.digits < 0:
			text = strconv.FormatInt(v.n, 10)
		case v.k == kFloat && sp.digits < 0 && v.float() > -1<<62 && v.float() < 1<<62:
			text = strconv.FormatInt(int64(v.float()), 10)
		case v.isNum() || v.k == kBig:
			s.unsupported("a conversion of %")
		default:
			s.raise(line, "%%d format: a real number is required, not %s", v.typeName())
		}
	default:
		if !v.isNum() {
			s.raise(line, "must be real number, not %s", v.typeName())
			break
		}
		if sp.digits < 0 {
			sp.digits = 6
		}
		if text = strconv.FormatFloat(v.asFloat(), 'f', sp.digits, 64); strings.ContainsAny(text, "IN") {
			s.unsupported("a conversion of %")
		}
	}
	pad := max(sp.width-runes(text), 0)
	switch {
	case sp.left:
		return append(append(out, text...), strings.Repeat(" ", pad)...)
	case sp.zero:
		digits := strings.TrimPrefix(text, "-")
		out = append(out, text[:len(text)-len(digits)]...)
		return append(append(out, strings.Repeat("0", pad)...), digits...)
	}
	return append(append(out, strings.Repeat(" ", pad)...), text...)
}

// formatBraces is str.format for {}, {0} and {name}, without conversions and format specifications.
func formatBraces(s *state, text string, a args) value {
	if !s.charge(2 * len(text)) {
		return undefValue
	}
	var out []byte
	auto := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c != '{' && c != '}':
			out = append(out, c)
			continue
		case i+1 < len(text) && text[i+1] == c:
			out = append(out, c)
			i++
			continue
		case c == '}':
			return s.raise(a.line, "Single '}' encountered in format string")
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return s.raise(a.line, "expected '}' before end of string")
		}
		v, ok := formatField(s, text[i+1:i+end], a, &auto)
		if !ok {
			return undefValue
		}
		out = append(out, toStr(s, v)...)
		if !s.charge(len(out)) {
			return undefValue
		}
		i += end
	}
	return strValue(string(out))
}

// formatField returns the argument of a replacement field of str.format.
func formatField(s *state, name string, a args, auto *int) (value, bool) {
	if strings.ContainsAny(name, "{!:.[") {
		s.unsupported("a replacement field of format")
		return undefValue, false
	}
	at := *auto
	if name != "" {
		var err error
		if at, err = strconv.Atoi(name); err != nil || *auto > 0 {
			for i, n := range a.names {
				if n == name {
					return a.kw[i], true
				}
			}
			s.unsupported("a replacement field of format")
			return undefValue, false
		}
	} else {
		*auto++
	}
	if at < 0 || at >= len(a.pos) {
		s.raise(a.line, "Replacement index out of range")
		return undefValue, false
	}
	return a.pos[at], true
}
