package chattemplate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isDigitMethod is str.isdigit for strings of ASCII; beyond, Python's answer hangs on its version
// of Unicode.
func isDigitMethod(s *state, self string, _ args) value {
	if !ascii(self) {
		return s.unsupported("the class of a character beyond ASCII")
	}
	return boolValue(self != "" && strings.Trim(self, "0123456789") == "")
}

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

// partitionText is partition and rpartition. Where the separator is missing, all goes to the part
// numbered rest.
func partitionText(s *state, self string, a args, find func(string, string) int, rest int) value {
	sep, ok := stringArg(s, a)
	if !ok {
		return undefValue
	}
	if sep == "" {
		return s.raise(a.line, "empty separator")
	}
	items := s.list(3)
	if items == nil {
		return undefValue
	}
	items[0], items[1], items[2] = strValue(""), strValue(""), strValue("")
	if at := find(self, sep); at >= 0 {
		items[0], items[1], items[2] = strValue(self[:at]), strValue(sep), strValue(self[at+len(sep):])
	} else {
		items[rest] = strValue(self)
	}
	return s.listValue(kTuple, items)
}

// dictMethods are the methods of dict that are rendered here. A view has a length and no indices.
var dictMethods = table[value, filterFunc]([]row[value, value]{
	{"get 0 1", 1, dictGet},
	{"items", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewItems, o: self.o} }},
	{"keys", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewKeys, o: self.o} }},
	{"values", 0, func(_ *state, self value, _ args) value { return value{k: kView, n: viewValues, o: self.o} }},
	{"copy", 0, func(_ *state, self value, _ args) value { return self }},
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

// listMethods are the methods of list and tuple that are rendered here.
var listMethods = table[value, filterFunc]([]row[value, value]{
	{"index 0 1 2", 1, listIndex},
	{"count 0", 1, listCount},
	{"copy", 0, func(_ *state, self value, _ args) value { return self }},
})

// listIndex is list.index, which raises for an absent value.
func listIndex(s *state, self value, a args) value {
	if a.pos[1].k != kMissing {
		return s.unsupported("list.index with positions")
	}
	if !s.step(len(self.o.items)) {
		return undefValue
	}
	at := slices.IndexFunc(self.o.items, func(v value) bool { return equalValues(s, v, a.pos[0], 0) })
	if at < 0 {
		return s.raise(a.line, "not in list")
	}
	return intValue(int64(at))
}

func listCount(s *state, self value, a args) value {
	n := int64(0)
	if !s.step(len(self.o.items)) {
		return undefValue
	}
	for _, v := range self.o.items {
		if equalValues(s, v, a.pos[0], 0) {
			n++
		}
	}
	return intValue(n)
}

// knownMethod reports whether a method of a Python type is rendered here for some type.
func knownMethod(name string) bool {
	return strMethods[name] != nil || dictMethods[name] != nil || listMethods[name] != nil
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
	case kList, kTuple:
		if m := listMethods[name]; m != nil && (self.k == kList || name != "copy") {
			return m(s, self, a), true
		}
	case kLoop:
		switch name {
		case "cycle":
			return cycleArgs(s, self.o.loop, a), true
		case "changed":
			return changedArgs(s, self.o.loop, a), true
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

// words counts words as the filter wordcount does: runs of \w.
func words(text string) int64 {
	n, in := int64(0), false
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if isWord(r) && !in {
			n++
		}
		in = isWord(r)
		text = text[size:]
	}
	return n
}
