package openai

import "unicode/utf8"

// null stands for a member without a value. Never written to.
var null = []byte("null")

// OrNull returns a raw value, null for none.
func OrNull(raw []byte) []byte {
	if raw == nil {
		return null
	}
	return raw
}

// AppendName appends the name of an object's next member, with a comma before it unless it is the
// first one. The name must need no escape.
func AppendName(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' && dst[n-1] != ',' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, `":`...)
}

// AppendMember appends the next member of an object with a raw value, unless it has none.
func AppendMember(dst []byte, name string, raw []byte) []byte {
	if raw == nil {
		return dst
	}
	return append(AppendName(dst, name), raw...)
}

// AppendStringField is AppendMember for a text.
func AppendStringField(dst []byte, name, value string) []byte {
	return AppendString(AppendName(dst, name), value)
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, since messages quote
// fields of clients.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
