package chattemplate

import (
	"strings"
	"unicode"
)

// titleMethod is str.title: a letter behind none is upper case, one behind a letter lower.
func titleMethod(s *state, text string, _ args) value {
	if !ascii(text) {
		return s.unsupported("title of characters beyond ASCII")
	}
	if !s.charge(2 * len(text)) {
		return undefValue
	}
	out, behind := []byte(text), false
	for i, c := range out {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		switch {
		case letter && behind:
			out[i] = c | 0x20
		case letter:
			out[i] = c &^ 0x20
		}
		behind = letter
	}
	return strValue(string(out))
}

// dictMethods are the methods of dict that are rendered here. A view has a length and no indices.
var dictMethods = table[value, filterFunc]([]row[value, value]{
	{"get 0 1", 1, dictGet},
	{"items", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewItems, o: self.o} }},
	{"keys", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewKeys, o: self.o} }},
	{"values", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewValues, o: self.o} }},
})

// dictGet is dict.get: without a default, a missing key is None and not undefined.
func dictGet(s *state, self value, a args) value {
	if v, ok := lookupKey(s, self.o, a.pos[0]); ok {
		return v
	}
	if a.pos[1].k != kMissing {
		return a.pos[1]
	}
	return noneValue
}

// knownMethod reports whether a method of a Python type is rendered here for some type.
func knownMethod(name string) bool {
	return strMethods[name] != nil || dictMethods[name] != nil
}

// invokeMethod calls a method of a value by name. ok is false if the value has no such method.
func invokeMethod(s *state, self value, name string, a args) (out value, ok bool) {
	switch self.k {
	case kString:
		if m := strMethods[name]; m != nil {
			if !scan(s, len(self.s)) {
				return undefValue, true
			}
			return m(s, self.s, a), true
		}
	case kDict:
		if m := dictMethods[name]; m != nil {
			return m(s, self, a), true
		}
	}
	return undefValue, false
}

// titleWords is the filter title: words begin behind space and opening brackets.
func titleWords(s *state, text string) string {
	if !ascii(text) {
		s.unsupported("title of characters beyond ASCII")
		return text
	}
	if !s.charge(2 * len(text)) {
		return text
	}
	out, first := []byte(text), true
	for i, c := range out {
		switch {
		case strings.IndexByte("-({[<", c) >= 0 || isPySpace(rune(c)):
			first = true
			continue
		case first:
			out[i] = byte(unicode.ToUpper(rune(c)))
		default:
			out[i] = byte(unicode.ToLower(rune(c)))
		}
		first = false
	}
	return string(out)
}

// escaped is markupsafe.escape, which makes up to five bytes of one.
func escaped(s *state, text string) string {
	if !s.charge(5 * len(text)) {
		return ""
	}
	return strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;").Replace(text)
}
