package responses

import (
	"math"
	"strconv"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// appendTwiceEscaped appends text as Python's json.dumps writes it with ensure_ascii=False, without
// quotes, inside of another JSON string.
func appendTwiceEscaped(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	for _, b := range text {
		switch b {
		case '"':
			dst = append(dst, `\\\"`...)
		case '\\':
			dst = append(dst, `\\\\`...)
		case '\n':
			dst = append(dst, `\\n`...)
		case '\r':
			dst = append(dst, `\\r`...)
		case '\t':
			dst = append(dst, `\\t`...)
		case '\b':
			dst = append(dst, `\\b`...)
		case '\f':
			dst = append(dst, `\\f`...)
		default:
			if b < ' ' {
				dst = append(dst, `\\u00`...)
				dst = append(dst, hex[b>>4], hex[b&15])
				continue
			}
			dst = append(dst, b)
		}
	}
	return dst
}

// isStrictObject reports whether orjson reads text as an object. It is stricter than JSON: it
// refuses half surrogate pairs and numbers above a double's range.
func isStrictObject(text []byte) bool {
	end, err := openai.Members(text, 0, func([]byte, int, int) {})
	if err != nil {
		return false
	}
	for ; end < len(text); end++ {
		if b := text[end]; b != ' ' && b != '\t' && b != '\n' && b != '\r' {
			return false
		}
	}
	quoted := false
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '\\':
			n := escapeLen(text[i:])
			if n == 0 {
				return false
			}
			i += n
		case b == '"':
			quoted = !quoted
			i++
		case !quoted && (b == '-' || b >= '0' && b <= '9'):
			n := numberLen(text[i:])
			if v, err := strconv.ParseFloat(string(text[i:i+n]), 64); err != nil && math.IsInf(v, 0) {
				return false
			}
			i += n
		default:
			i++
		}
	}
	return true
}

// escapeLen returns the length of an escape, or of a pair of them; 0 for half a pair.
func escapeLen(text []byte) int {
	if text[1] != 'u' {
		return 2
	}
	switch v, _ := strconv.ParseUint(string(text[2:6]), 16, 16); {
	case v >= 0xDC00 && v <= 0xDFFF:
		return 0
	case v < 0xD800 || v > 0xDBFF:
		return 6
	}
	if len(text) < 12 || text[6] != '\\' || text[7] != 'u' {
		return 0
	}
	if low, err := strconv.ParseUint(string(text[8:12]), 16, 16); err != nil || low < 0xDC00 || low > 0xDFFF {
		return 0
	}
	return 12
}

func numberLen(text []byte) int {
	n := 1
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.' || text[n] == 'e' || text[n] == 'E' ||
		text[n] == '+' || text[n] == '-') {
		n++
	}
	return n
}
