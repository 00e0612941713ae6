package chattemplate

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber is Python's int() or float() of a string; ok is false where Python raises.
// Underscores, digits beyond ASCII and the names of infinities end the render with ErrUnsupported.
func parseNumber(s *state, text string, isFloat bool) (value, bool) {
	text = trim(text, isPySpace, true, true)
	if !ascii(text) || strings.Contains(text, "_") {
		s.unsupported("the number " + strconv.Quote(text))
		return undefValue, false
	}
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 || digits == "" {
		return undefValue, false
	}
	if !isFloat {
		if strings.Trim(digits, "0123456789") != "" {
			return undefValue, false
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.unsupported(tooBig)
			return undefValue, false
		}
		return intValue(n), true
	}
	if lower := strings.ToLower(digits); lower == "inf" || lower == "infinity" || lower == "nan" {
		s.unsupported("the number " + text)
		return undefValue, false
	}
	if strings.Trim(digits, "0123456789.eE+-") != "" {
		return undefValue, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && math.IsInf(f, 0) {
		s.unsupported("a float out of range")
		return undefValue, false
	}
	return floatValue(f), err == nil
}

// intFilter is int() with a default for a value that is not a number: "4.9" is 4, by way of a
// float.
func intFilter(s *state, v value, a args) value {
	fallback := intValue(0)
	if a.pos[0].k != kMissing {
		fallback = a.pos[0]
	}
	switch v.k {
	case kInt, kBig:
		return v
	case kBool:
		return intValue(v.n)
	case kFloat:
		return truncatedFloat(s, a.line, v.float(), fallback)
	case kString, kMarkup:
		if a.pos[1].k != kMissing && (!a.pos[1].isInt() || a.pos[1].n != 10) {
			return s.unsupported("int with a base")
		}
		if n, ok := parseNumber(s, v.s, false); ok || s.err != nil {
			return n
		}
		if f, ok := parseNumber(s, v.s, true); ok || s.err != nil {
			return truncatedFloat(s, a.line, f.float(), fallback)
		}
	case kUndefined:
		return s.raise(a.line, "undefined has no int")
	}
	return fallback
}

// truncatedFloat is int(f).
func truncatedFloat(s *state, line int, f float64, fallback value) value {
	switch {
	case math.IsNaN(f):
		return fallback
	case math.IsInf(f, 0):
		return s.raise(line, "cannot convert float infinity to integer")
	case math.Abs(f) >= 1<<63:
		return s.unsupported(tooBig)
	}
	return intValue(int64(f))
}
