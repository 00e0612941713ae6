package request

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// compact reports whether valid JSON has no white space between its parts.
func compact(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
			return false
		case '"':
			i = stringEnd(raw, i)
		default:
			i++
		}
	}
	return true
}

// appendCompact appends valid JSON without the white space between its parts: clients write it as
// their libraries do. media has checksums stand for the bytes of images, audio, video and files:
// two chats with the same ones are equal, and megabytes of them are no text.
func appendCompact(dst, raw []byte, media bool) []byte {
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := stringEnd(raw, i)
			if text := raw[i:end]; media && isMedium(text) {
				dst = append(openai.AppendChecksum(append(dst, '"'), text), '"')
			} else {
				dst = append(dst, text...)
			}
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd returns the index behind the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		i += n + 1
		escapes := 0
		for raw[i-2-escapes] == '\\' { // ends at the opening quote
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// leastMedium is the least size of a medium in bytes: shorter strings are as well known by
// themselves.
const leastMedium = 512

// isMedium reports whether a JSON string is a data URL or base64.
func isMedium(text []byte) bool {
	if len(text) < leastMedium {
		return false
	}
	text = text[1 : len(text)-1]
	if bytes.HasPrefix(text, []byte("data:")) {
		return true
	}
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '+', c == '/', c == '=', c == '-', c == '_', c == '\\': // JSON may write / as \/
		default:
			return false
		}
	}
	return true
}
