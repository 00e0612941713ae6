package anthropic

import (
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

// members calls f for each member of the object at i, with a value of nil for null, and returns the
// index after the object.
func members(raw []byte, i int, f func(key, value []byte)) (end int) {
	end, _ = openai.Members(raw, i, func(key []byte, lo, hi int) {
		value := raw[lo:hi:hi]
		if value[0] == 'n' {
			value = nil
		}
		f(openai.Unescape(key), value)
	})
	return end
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

// memberOf returns a member of an object, nil where it is absent or null, or raw is no object.
func memberOf(raw []byte, name string) (value []byte) {
	if kind(raw) != '{' {
		return nil
	}
	members(raw, 0, func(key, v []byte) {
		if string(key) == name {
			value = v
		}
	})
	return value
}

// content returns a raw string without its quotes.
func content(raw []byte) []byte { return raw[1 : len(raw)-1] }

// isText reports whether a value is a string.
func isText(raw []byte) bool { return kind(raw) == '"' }

// isFilled reports whether a value is a string that is not empty.
func isFilled(raw []byte) bool { return kind(raw) == '"' && len(raw) > 2 }

// textOf returns the value of a raw string, "" for any other value.
func textOf(raw []byte) string {
	if !isText(raw) {
		return ""
	}
	return string(openai.Unescape(content(raw)))
}

// is reports whether a raw value is a string of this content.
func is(raw []byte, text string) bool {
	return isText(raw) && string(openai.Unescape(content(raw))) == text
}

// isBlank reports whether Python's str.strip leaves nothing of a raw string.
func isBlank(raw []byte) bool {
	// Fast path: most texts begin with a letter.
	if c := raw[1]; c > ' ' && c < utf8.RuneSelf && c != '\\' && c != '"' {
		return false
	}
	return len(strip(openai.Unescape(content(raw)))) == 0
}

// strip is Python's str.strip.
func strip(text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if !isSpace(r) {
			break
		}
		text = text[n:]
	}
	for len(text) > 0 {
		r, n := utf8.DecodeLastRune(text)
		if !isSpace(r) {
			break
		}
		text = text[:len(text)-n]
	}
	return text
}

// isSpace is Python's str.isspace of one character: Unicode's white space, and the separators of
// ASCII.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
