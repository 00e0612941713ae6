package sim

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// appendJSONString appends s as a JSON string; invalid UTF-8 becomes U+FFFD, as in SGLang.
func appendJSONString[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c < ' ':
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				dst = append(dst, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return append(dst, '"')
}

// quoted is a string in JSON.
func quoted[S string | []byte](s S) []byte { return appendJSONString(nil, s) }

// nullable is a string in JSON, or null for "".
func nullable(s string) []byte {
	if s == "" {
		return []byte("null")
	}
	return quoted(s)
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }

func appendFloat(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'f', -1, 64) }

// appendStamp appends t in seconds since 1970, null if t is not set.
func appendStamp(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, unixSeconds(t), 'f', 6, 64)
}

// appendIDs appends ids as a JSON list.
func appendIDs(dst []byte, ids []uint32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return append(dst, ']')
}
