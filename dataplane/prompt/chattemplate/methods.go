package chattemplate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isASCIISet is a predicate like isdigit for strings of ASCII; beyond, Python's answer hangs on its
// version of Unicode.
func isASCIISet(s *state, self string, a args, set string) value {
	if !ascii(self) {
		return s.unsupported("the class of a character beyond ASCII")
	}
	noArgs(s, self, a)
	return boolValue(self != "" && strings.Trim(self, set) == "")
}

// isSpaceMethod is str.isspace.
func isSpaceMethod(s *state, self string, a args) value {
	noArgs(s, self, a)
	return boolValue(self != "" && trim(self, isPySpace, true, false) == "")
}

// titleMethod is str.title: a letter behind none is upper case, one behind a letter lower.
func titleMethod(s *state, text string) value {
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
	sep, ok := stringArg(s, a, "partition")
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

// dictMethods are the methods of dict that are rendered here.
var dictMethods = map[string]func(s *state, self value, a args) value{
	"get":    dictGet,
	"items":  func(s *state, self value, a args) value { return dictView(s, self, a, viewItems) },
	"keys":   func(s *state, self value, a args) value { return dictView(s, self, a, viewKeys) },
	"values": func(s *state, self value, a args) value { return dictView(s, self, a, viewValues) },
	"copy":   func(s *state, self value, a args) value { noArgs(s, "", a); return self },
}

// dictGet is dict.get: without a default, a missing key is None and not undefined.
func dictGet(s *state, self value, a args) value {
	var out [2]value
	if !bindArgs(s, a, "get", 1, []string{"", " "}, out[:]) {
		return undefValue
	}
	if v, ok := lookupKey(s, self.o, out[0]); ok {
		return v
	}
	if out[1].k != kMissing {
		return out[1]
	}
	return noneValue
}

// dictView is items, keys and values. A view has a length and no indices.
func dictView(s *state, self value, a args, which int64) value {
	noArgs(s, "", a)
	return value{k: kView, n: which, o: self.o}
}

// listMethods are the methods of list and tuple that are rendered here.
var listMethods = map[string]func(s *state, self value, a args) value{
	"index": listIndex,
	"count": listCount,
	"copy":  func(s *state, self value, a args) value { noArgs(s, "", a); return self },
}

// listIndex is list.index, which raises for an absent value.
func listIndex(s *state, self value, a args) value {
	if len(a.pos) != 1 || a.kw != nil {
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

// listCount is list.count.
func listCount(s *state, self value, a args) value {
	var out [1]value
	if !bindArgs(s, a, "count", 1, []string{""}, out[:]) {
		return undefValue
	}
	n := int64(0)
	if !s.step(len(self.o.items)) {
		return undefValue
	}
	for _, v := range self.o.items {
		if equalValues(s, v, out[0], 0) {
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
