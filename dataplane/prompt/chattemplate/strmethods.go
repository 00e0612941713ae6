package chattemplate

import (
	"slices"
	"strings"
	"unicode/utf8"
)

type textMethod = func(s *state, self string, a args) value

// strMethods are the methods of str that are rendered here. A template that calls another one is
// refused when it is compiled.
var strMethods = table[string, textMethod]([]row[string, value]{
	{"strip 0", 0, func(s *state, self string, a args) value { return stripText(s, self, a, true, true) }},
	{"lstrip 0", 0, func(s *state, self string, a args) value { return stripText(s, self, a, true, false) }},
	{"rstrip 0", 0, func(s *state, self string, a args) value { return stripText(s, self, a, false, true) }},
	{"split sep maxsplit", 0, func(s *state, self string, a args) value { return splitMethod(s, self, a, false) }},
	{"rsplit sep maxsplit", 0, func(s *state, self string, a args) value { return splitMethod(s, self, a, true) }},
	{"startswith 0 1 2", 1, func(s *state, self string, a args) value { return hasAffix(s, self, a, strings.HasPrefix) }},
	{"endswith 0 1 2", 1, func(s *state, self string, a args) value { return hasAffix(s, self, a, strings.HasSuffix) }},
	{"removeprefix 0", 1, func(s *state, self string, a args) value { return cutAffix(s, self, a, strings.TrimPrefix) }},
	{"removesuffix 0", 1, func(s *state, self string, a args) value { return cutAffix(s, self, a, strings.TrimSuffix) }},
	{"replace 0 1 count", 2, replaceMethod},
	{"upper", 0, func(s *state, self string, _ args) value { return strValue(upperCase(s, self)) }},
	{"lower", 0, func(s *state, self string, _ args) value { return strValue(lowerCase(s, self)) }},
	{"capitalize", 0, func(s *state, self string, _ args) value { return strValue(capitalize(s, self)) }},
	{"title", 0, titleMethod},
	{"join 0", 1, joinMethod},
})

// stringArg returns the first argument of a method, which must be a string, and the only one: the
// places that some take behind it are not rendered here.
func stringArg(s *state, a args) (string, bool) {
	switch v := a.pos[0]; {
	case v.k == kMarkup || slices.ContainsFunc(a.pos[1:], func(v value) bool { return v.k != kMissing }):
		s.unsupported("a method with Markup or positions")
	case v.k != kString:
		s.raise(a.line, "a method needs a str, not %s", v.typeName())
	default:
		return v.s, true
	}
	return "", false
}

// stripText is strip, lstrip and rstrip: of white space, or of any of the characters given.
func stripText(s *state, self string, a args, left, right bool) value {
	switch a.pos[0].k {
	case kMissing, kNone:
		return strValue(trim(self, isPySpace, left, right))
	case kString:
		chars := a.pos[0].s
		return strValue(trim(self, func(r rune) bool { return strings.ContainsRune(chars, r) }, left, right))
	case kMarkup:
		return s.unsupported("strip with Markup")
	}
	return s.raise(a.line, "strip arg must be None or str")
}

// trim drops code points from one or both ends. The result shares the string's bytes.
func trim(text string, drop func(rune) bool, left, right bool) string {
	if left {
		text = strings.TrimLeftFunc(text, drop)
	}
	if right {
		text = strings.TrimRightFunc(text, drop)
	}
	return text
}

func splitMethod(s *state, self string, a args, fromRight bool) value {
	limit := -1
	if a.pos[1].k != kMissing {
		if !a.pos[1].isInt() {
			return s.raise(a.line, "maxsplit must be an integer")
		}
		limit = int(max(min(a.pos[1].n, int64(len(self))+1), -1))
	}
	if !s.step(len(self) / 16) {
		return undefValue
	}
	var parts []string
	switch a.pos[0].k {
	case kMissing, kNone:
		parts = splitSpace(self, limit, fromRight)
	case kString:
		if a.pos[0].s == "" {
			return s.raise(a.line, "empty separator")
		}
		parts = splitText(self, a.pos[0].s, limit, fromRight)
	case kMarkup:
		return s.unsupported("split with Markup")
	default:
		return s.raise(a.line, "must be str or None, not %s", a.pos[0].typeName())
	}
	return stringList(s, parts)
}

func stringList(s *state, parts []string) value {
	items := s.list(len(parts))
	if items == nil {
		return undefValue
	}
	for i, part := range parts {
		items[i] = strValue(part)
	}
	return s.listValue(kList, items)
}

// splitText splits at a separator, at most limit times if that is not negative.
func splitText(text, sep string, limit int, fromRight bool) []string {
	if limit < 0 {
		return strings.Split(text, sep)
	}
	if !fromRight {
		return strings.SplitN(text, sep, limit+1)
	}
	var parts []string
	for ; limit > 0; limit-- {
		i := strings.LastIndex(text, sep)
		if i < 0 {
			break
		}
		parts = append(parts, text[i+len(sep):])
		text = text[:i]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return parts
}

// splitSpace splits at runs of space; the remainder behind limit parts keeps its inner and its
// trailing space.
func splitSpace(text string, limit int, fromRight bool) []string {
	var parts []string
	text = trim(text, isPySpace, !fromRight, fromRight)
	for text != "" {
		if limit == 0 {
			parts = append(parts, text)
			break
		}
		limit--
		if fromRight {
			i := strings.LastIndexFunc(text, isPySpace)
			if i < 0 {
				parts = append(parts, text)
				break
			}
			_, n := utf8.DecodeRuneInString(text[i:])
			parts = append(parts, text[i+n:])
			text = strings.TrimRightFunc(text[:i], isPySpace)
			continue
		}
		i := strings.IndexFunc(text, isPySpace)
		if i < 0 {
			parts = append(parts, text)
			break
		}
		parts = append(parts, text[:i])
		text = strings.TrimLeftFunc(text[i:], isPySpace)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// lines is str.splitlines: a line end at the very end begins no further line.
func lines(text string, keep bool) []string {
	var parts []string
	for text != "" {
		i := strings.IndexFunc(text, isLineEnd)
		if i < 0 {
			return append(parts, text)
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		if strings.HasPrefix(text[i:], "\r\n") {
			n = 2
		}
		if keep {
			parts = append(parts, text[:i+n])
		} else {
			parts = append(parts, text[:i])
		}
		text = text[i+n:]
	}
	return parts
}

// isLineEnd reports whether str.splitlines splits at a code point.
func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func hasAffix(s *state, self string, a args, has func(string, string) bool) value {
	if a.pos[0].k == kTuple && a.pos[1].k == kMissing {
		for _, item := range a.pos[0].o.items {
			if !item.isStr() {
				return s.raise(a.line, "tuple must only contain str")
			}
			if s.step(1) && scan(s, len(item.s)) && has(self, item.s) {
				return boolValue(true)
			}
		}
		return boolValue(false)
	}
	fix, ok := stringArg(s, a)
	return boolValue(ok && has(self, fix))
}

func cutAffix(s *state, self string, a args, by func(string, string) string) value {
	fix, ok := stringArg(s, a)
	if !ok {
		return undefValue
	}
	return strValue(by(self, fix))
}

// replaceMethod is str.replace, which takes strings only.
func replaceMethod(s *state, self string, a args) value {
	if a.pos[0].k == kMarkup || a.pos[1].k == kMarkup {
		return s.unsupported("replace with Markup")
	}
	if !a.pos[0].isStr() || !a.pos[1].isStr() {
		return s.raise(a.line, "replace needs str")
	}
	n := int64(-1)
	if a.pos[2].k != kMissing {
		if !a.pos[2].isInt() {
			return s.raise(a.line, "count must be an integer")
		}
		n = a.pos[2].n
	}
	return replaceText(s, self, a.pos[0].s, a.pos[1].s, n)
}

// replaceText is str.replace; n below 0 replaces all.
func replaceText(s *state, text, old, repl string, n int64) value {
	found := int64(strings.Count(text, old))
	if n >= 0 {
		found = min(found, n)
	}
	if found == 0 {
		return strValue(text)
	}
	if !s.charge(len(text) + int(found)*len(repl)) {
		return undefValue
	}
	return strValue(strings.Replace(text, old, repl, int(found)))
}

// joinMethod is str.join, which raises at the first element that is not a string.
func joinMethod(s *state, self string, a args) value {
	it := iterate(s, a.line, a.pos[0])
	items := it.all(s)
	if !s.step(len(items)) {
		return undefValue
	}
	parts, size := make([]string, 0, 2*len(items)), 0
	for i, item := range items {
		if item.k == kMarkup {
			return s.unsupported("join of Markup")
		}
		if item.k != kString {
			return s.raise(a.line, "sequence item %d: expected str instance, %s found", i, item.typeName())
		}
		if i > 0 {
			parts = append(parts, self)
			size += len(self)
		}
		parts = append(parts, item.s)
		size += len(item.s)
	}
	return strValue(s.join(parts, size))
}
