package chattemplate

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// pyAttrs are the public attributes of Python's types. A template reaches them before the keys of a
// dict: tool.items is the method even where the dict has a key items. From dir() of CPython 3.11;
// later versions have no others.
var pyAttrs = map[kind][]string{
	kString: strings.Fields("capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha " +
		"isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans " +
		"partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip " +
		"swapcase title translate upper zfill"),
	kMarkup: {"escape", "unescape", "striptags"},
	kList:   strings.Fields("append clear copy count extend index insert pop remove reverse sort"),
	kDict:   strings.Fields("clear copy fromkeys get items keys pop popitem setdefault update values"),
	kTuple:  {"count", "index"},
	kInt:    strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"),
	kFloat:  strings.Fields("as_integer_ratio conjugate fromhex hex imag is_integer real"),
	kRange:  strings.Fields("count index start step stop"),
	kView:   {"isdisjoint", "mapping"},
	kGen:    strings.Fields("close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw"),
	kLoop:   strings.Fields("changed cycle depth depth0 first index index0 last length nextitem previtem revindex revindex0"),
	kMacro:  strings.Fields("arguments caller catch_kwargs catch_varargs explicit_caller name"),
}

// unsafeAttrs are the methods that the sandbox hides because they change their object.
var unsafeAttrs = map[kind][]string{
	kList: strings.Fields("append clear pop reverse insert sort extend remove"),
	kDict: strings.Fields("clear pop popitem setdefault update"),
	kGen:  {"gi_frame", "gi_code"},
}

// isPyAttr reports whether a value of any kind may have an attribute of this name that is not a
// key.
func isPyAttr(name string) bool {
	if strings.HasPrefix(name, "_") {
		return true
	}
	for _, list := range pyAttrs {
		if slices.Contains(list, name) {
			return true
		}
	}
	return false
}

func hasAttr(v value, name string) bool {
	k := v.k
	switch k {
	case kBool, kBig:
		k = kInt
	case kMarkup:
		if slices.Contains(pyAttrs[kMarkup], name) {
			return true
		}
		k = kString
	}
	return slices.Contains(pyAttrs[k], name)
}

// getAttr is obj.name as jinja2.sandbox reads it: an attribute if there is one, else the item of
// that name.
func getAttr(s *state, line int, obj value, name string) value {
	switch {
	case obj.k == kUndefined:
		return s.raise(line, "undefined has no attribute %s", name)
	case obj.k == kLoop:
		return loopAttr(s, obj.o.loop, name)
	case strings.HasPrefix(name, "_"):
		return getPrivateAttr(s, obj, name)
	case obj.k == kNamespace:
		v, _ := lookup(s, obj.o, name)
		return v
	case hasAttr(obj, name):
		return boundMethod(s, obj, name)
	case obj.k == kDict:
		v, _ := lookup(s, obj.o, name)
		return v
	}
	return otherAttr(s, obj, name)
}

// otherAttr is an attribute that a type is not known to have. Those of functions are not listed.
func otherAttr(s *state, obj value, name string) value {
	if obj.k == kMacro || obj.k == kFunc {
		return s.unsupported("attribute " + name + " of a function")
	}
	return undefValue
}

// getPrivateAttr is an attribute that begins with an underscore: hidden by the sandbox where it
// exists, and else perhaps a key.
func getPrivateAttr(s *state, obj value, name string) value {
	if obj.k != kDict && obj.k != kNamespace || strings.HasPrefix(name, "__") {
		return s.unsupported("attribute " + name)
	}
	v, _ := lookup(s, obj.o, name)
	return v
}

// boundMethod is an attribute that a value's type has.
func boundMethod(s *state, obj value, name string) value {
	k := obj.k
	if slices.Contains(unsafeAttrs[k], name) {
		return undefValue
	}
	if k == kRange || k == kMacro {
		return s.unsupported("attribute " + name + " of " + obj.typeName())
	}
	if obj.isNum() && (name == "real" || name == "imag" || name == "numerator" || name == "denominator") {
		return s.unsupported("attribute " + name + " of " + obj.typeName())
	}
	o := s.object()
	if o.items = s.list(1); o.items == nil {
		return undefValue
	}
	o.items[0] = obj
	return value{k: kMethod, s: name, o: o}
}

// getItem is obj[arg] as jinja2.sandbox reads it: the item, else the attribute of that name.
func getItem(s *state, line int, obj, arg value) value {
	switch obj.k {
	case kUndefined:
		return s.raise(line, "undefined has no element")
	case kList, kTuple, kRange:
		if arg.isInt() {
			if i := int(arg.n); arg.n >= -int64(len(obj.o.items)) && arg.n < int64(len(obj.o.items)) {
				if i < 0 {
					i += len(obj.o.items)
				}
				return obj.o.items[i]
			}
			return undefValue
		}
	case kString, kMarkup:
		if arg.isInt() {
			return charAt(s, obj, arg.n)
		}
	case kDict:
		if arg.k == kList || arg.k == kDict { // unhashable: a TypeError, which the sandbox swallows
			return undefValue
		}
		if v, ok := lookupKey(s, obj.o, arg); ok {
			return v
		}
	}
	if !arg.isStr() {
		return undefValue
	}
	switch {
	case obj.k == kLoop:
		return loopAttr(s, obj.o.loop, arg.s)
	case obj.k == kNamespace:
		v, _ := lookup(s, obj.o, arg.s)
		return v
	case strings.HasPrefix(arg.s, "_"):
		if strings.HasPrefix(arg.s, "__") {
			return s.unsupported("attribute " + arg.s)
		}
	case hasAttr(obj, arg.s):
		return boundMethod(s, obj, arg.s)
	}
	return otherAttr(s, obj, arg.s)
}

// runes returns how many code points a string has.
func runes(text string) int { return utf8.RuneCountInString(text) }

// ascii reports whether bytes and code points of a string are the same.
func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// charAt is the i-th code point of a string.
func charAt(s *state, v value, i int64) value {
	if v.k == kMarkup {
		return s.unsupported("an item of Markup")
	}
	if !scan(s, len(v.s)) {
		return undefValue
	}
	n := int64(runes(v.s))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return undefValue
	}
	at := offset(v.s, int(i))
	_, size := utf8.DecodeRuneInString(v.s[at:])
	return strValue(v.s[at : at+size])
}

// offset returns where the n-th code point of a string begins.
func offset(text string, n int) int {
	if n == 0 {
		return 0
	}
	for at := range text {
		if n == 0 {
			return at
		}
		n--
	}
	return len(text)
}

// sliceValue is obj[start:stop:step], which goes past the sandbox straight to Python.
func sliceValue(s *state, line int, obj, start, stop, step value) value {
	var size int
	switch obj.k {
	case kList, kTuple:
		size = len(obj.o.items)
	case kString:
		scan(s, len(obj.s))
		size = runes(obj.s)
	case kRange, kMarkup, kGen:
		return s.unsupported("a slice of " + obj.typeName())
	default:
		return s.raise(line, "cannot slice %s", obj.typeName())
	}
	for _, v := range []value{start, stop, step} {
		if v.k == kBig {
			return s.unsupported(tooBig)
		}
		if v.k != kNone && !v.isInt() {
			return s.raise(line, "slice indices must be integers or None")
		}
	}
	by := int64(1)
	if step.k != kNone {
		by = step.n
	}
	if by == 0 {
		return s.raise(line, "slice step cannot be zero")
	}
	from, to := bounds(start, stop, by, int64(size))
	if obj.k == kString {
		return sliceText(s, obj.s, from, to, by, size)
	}
	if by == 1 {
		return s.listValue(obj.k, obj.o.items[from:max(from, to):max(from, to)])
	}
	items := s.list(steps(from, to, by))
	if items == nil {
		return undefValue
	}
	for i := range items {
		items[i] = obj.o.items[from+int64(i)*by]
	}
	return s.listValue(obj.k, items)
}

// bounds is PySlice_AdjustIndices.
func bounds(start, stop value, by, size int64) (from, to int64) {
	low, high := int64(0), size
	if by < 0 {
		low, high = -1, size-1
	}
	clamp := func(v value, missing int64) int64 {
		if v.k == kNone {
			return missing
		}
		n := v.n
		if n < 0 {
			n += size
		}
		return min(max(n, low), high)
	}
	if by < 0 {
		return clamp(start, high), clamp(stop, low)
	}
	return clamp(start, low), clamp(stop, high)
}

// steps returns how many elements a slice has.
func steps(from, to, by int64) int {
	switch {
	case by > 0 && from < to:
		return int((to-from-1)/by + 1)
	case by < 0 && from > to:
		return int((from-to-1)/-by + 1)
	}
	return 0
}

// sliceText is a slice of a string by code points. A plain slice of ASCII, and one of step 1,
// shares the string's bytes.
func sliceText(s *state, text string, from, to, by int64, size int) value {
	if by == 1 {
		if from >= to {
			return strValue("")
		}
		if size == len(text) {
			return strValue(text[from:to])
		}
		at := offset(text, int(from))
		return strValue(text[at : at+offset(text[at:], int(to-from))])
	}
	n := steps(from, to, by)
	if !s.charge(len(text) * 4) {
		return undefValue
	}
	all := []rune(text)
	out := make([]rune, n)
	for i := range out {
		out[i] = all[from+int64(i)*by]
	}
	return strValue(string(out))
}
