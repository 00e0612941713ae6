package anthropic

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// The values that these functions read are parts of a checked body: invalid JSON cannot occur.

// kind returns the first byte of a value, which tells its type; 0 for an absent one.
func kind(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// objects calls f with the index of each object in a list. f returns the index after it.
func objects(w *writer, list []byte, f func(at int) (end int)) {
	openai.WalkList(list, 0, func(at int) int {
		if list[at] != '{' {
			w.doubt()
			return 0
		}
		return f(at)
	})
}

// isFilled reports whether a value is a string that is not empty.
func isFilled(raw []byte) bool { return openai.IsString(raw) && len(raw) > 2 }

// textOf returns the value of a raw string, "" for any other value.
func textOf(raw []byte) string {
	if !openai.IsString(raw) {
		return ""
	}
	return string(openai.Unescape(openai.Inside(raw)))
}

// isBlank reports whether Python's str.strip leaves nothing of a raw string.
func isBlank(raw []byte) bool {
	// Fast path: most texts begin with a letter.
	if c := raw[1]; c > ' ' && c < utf8.RuneSelf && c != '\\' && c != '"' {
		return false
	}
	return len(strip(openai.Unescape(openai.Inside(raw)))) == 0
}

// strip is Python's str.strip.
func strip(text []byte) []byte { return bytes.TrimFunc(text, isSpace) }

// isSpace is Python's str.isspace of one character: Unicode's white space, and the separators of
// ASCII.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
