package chattemplate

import (
	"math"
	"slices"
	"strings"
)

// filterFunc is a filter of jinja2/filters.py.
type filterFunc func(s *state, v value, a args) value

// filters are the filters that are rendered here. A template with another one is refused when it is
// compiled, or when its branch runs. Filters that look filters up go through their Template, or
// this table would refer to itself.
var filters = map[string]filterFunc{
	"abs": absFilter, "attr": attrFilter, "batch": batchFilter, "capitalize": textFilter(capitalize),
	"count": lengthFilter, "d": defaultFilter, "default": defaultFilter, "dictsort": dictSortFilter,
	"e": escapeFilter, "escape": escapeFilter, "first": firstFilter, "float": floatFilter, "forceescape": escapeFilter,
	"format": formatFilter, "groupby": groupFilter, "indent": indentFilter, "int": intFilter, "items": itemsFilter,
	"join": joinFilter, "last": lastFilter, "length": lengthFilter, "list": listFilter, "lower": textFilter(lowerCase),
	"map": mapFilter, "max": maxFilter, "min": minFilter, "reject": rejectFilter, "rejectattr": rejectAttrFilter,
	"replace": replaceFilter, "reverse": reverseFilter, "round": roundFilter, "safe": safeFilter, "select": selectFilter,
	"selectattr": selectAttrFilter, "slice": sliceFilter, "sort": sortFilter, "string": stringFilter, "sum": sumFilter,
	"title": textFilter(titleWords), "tojson": toJSONFilter, "trim": trimFilter, "unique": uniqueFilter,
	"upper": textFilter(upperCase), "wordcount": wordsFilter,
}

// textFilter makes a filter of a function of a string.
func textFilter(f func(*state, string) string) filterFunc {
	return func(s *state, v value, a args) value {
		if !bindArgs(s, a, "filter", 0, nil, nil) {
			return undefValue
		}
		if v.k == kMarkup {
			return s.unsupported("a filter on Markup")
		}
		return strValue(f(s, toStr(s, v)))
	}
}

// trimFilter strips Python's white space, which is more than Unicode's, or the characters given.
func trimFilter(s *state, v value, a args) value {
	if v.k == kMarkup {
		return s.unsupported("trim of Markup")
	}
	return stripText(s, toStr(s, v), args{line: a.line, pos: a.pos, kw: a.kw, names: renamed(a.names, "chars", "")}, true, true)
}

// renamed replaces one keyword by the name under which the callee takes it.
func renamed(names []string, from, to string) []string {
	if !slices.Contains(names, from) {
		return names
	}
	out := slices.Clone(names)
	out[slices.Index(out, from)] = to
	return out
}

// stringFilter is soft_str: Markup stays Markup.
func stringFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "string", 0, nil, nil) || v.k == kMarkup {
		return v
	}
	return strValue(toStr(s, v))
}

// safeFilter makes Markup. Templates write it behind tojson out of habit; output as it is, it
// changes nothing.
func safeFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "safe", 0, nil, nil) {
		return undefValue
	}
	return value{k: kMarkup, s: toStr(s, v)}
}

// escapeFilter escapes HTML unless the value is Markup.
func escapeFilter(s *state, v value, a args) value {
	if v.k == kMarkup || !bindArgs(s, a, "escape", 0, nil, nil) {
		return v
	}
	return value{k: kMarkup, s: escaped(s, toStr(s, v))}
}

// defaultFilter replaces an undefined value, and with its second argument a false one. None alone
// is neither.
func defaultFilter(s *state, v value, a args) value {
	out := [2]value{}
	if !bindArgs(s, a, "default", 0, []string{"default_value", "boolean"}, out[:]) {
		return undefValue
	}
	if v.k != kUndefined && (!out[1].truthy() || v.truthy()) {
		return v
	}
	if out[0].k == kMissing {
		return strValue("")
	}
	return out[0]
}

// lengthFilter is len(): characters of a string, keys of a dict, and an error for a generator.
func lengthFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "length", 0, nil, nil) {
		return undefValue
	}
	return intValue(lengthOf(s, a.line, v))
}

// listFilter makes a list. It may share its elements with its source, since no list can change.
func listFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "list", 0, nil, nil) {
		return undefValue
	}
	it := iterate(s, a.line, v)
	items := it.all(s)
	if !s.step(len(items)) {
		return undefValue
	}
	return s.listValue(kList, items)
}

// firstFilter takes one element, of a generator as well, which then lacks it.
func firstFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "first", 0, nil, nil) {
		return undefValue
	}
	it := iterate(s, a.line, v)
	if first, ok := it.next(s); ok {
		return first
	}
	return undefValue
}

// lastFilter takes the operands of reversed(): no generator.
func lastFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "last", 0, nil, nil) {
		return undefValue
	}
	switch v.k {
	case kList, kTuple, kRange:
		if n := len(v.o.items); n > 0 {
			return v.o.items[n-1]
		}
		return undefValue
	case kString:
		return charAt(s, v, -1)
	case kDict:
		if n := len(v.o.keys); n > 0 {
			return v.o.keys[n-1]
		}
		return undefValue
	case kView:
		it := iterate(s, a.line, v)
		if items := it.all(s); len(items) > 0 {
			return items[len(items)-1]
		}
		return undefValue
	case kUndefined, kMarkup:
		return s.unsupported("last of " + v.typeName())
	}
	return s.raise(a.line, "%s object is not reversible", v.typeName())
}

// itemsFilter is a generator of pairs; undefined has none, and None is an error.
func itemsFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "items", 0, nil, nil) {
		return undefValue
	}
	if v.k == kUndefined {
		return s.listValue(kGen, nil)
	}
	if v.k != kDict {
		return s.raise(a.line, "Can only get item pairs from a mapping.")
	}
	it := iterate(s, a.line, value{k: kView, n: viewItems, o: v.o})
	return s.listValue(kGen, it.all(s))
}

// joinFilter takes str of every element, unlike the method of strings.
func joinFilter(s *state, v value, a args) value {
	var out [2]value
	if !bindArgs(s, a, "join", 0, []string{"d", "attribute"}, out[:]) {
		return undefValue
	}
	sep := toStr(s, out[0])
	it := iterate(s, a.line, v)
	var parts []string
	size := 0
	for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
		if out[1].k != kMissing && out[1].k != kNone {
			item = attributePath(s, a.line, item, out[1])
		}
		if len(parts) > 0 {
			parts = append(parts, sep)
			size += len(sep)
		}
		text := toStr(s, item)
		parts = append(parts, text)
		size += len(text)
	}
	return strValue(s.join(parts, size))
}

// replaceFilter takes str of the value and both arguments, unlike the method of strings.
func replaceFilter(s *state, v value, a args) value {
	var out [3]value
	if !bindArgs(s, a, "replace", 2, []string{"old", "new", "count"}, out[:]) {
		return undefValue
	}
	n := int64(-1)
	switch {
	case out[2].isInt():
		n = out[2].n
	case out[2].k != kMissing && out[2].k != kNone:
		return s.raise(a.line, "count must be an integer")
	}
	return replaceText(s, toStr(s, v), toStr(s, out[0]), toStr(s, out[1]), n)
}

// indentFilter indents all lines but the first, and not the empty ones. All of Python's line ends
// become \n.
func indentFilter(s *state, v value, a args) value {
	var out [3]value
	if !bindArgs(s, a, "indent", 0, []string{"width", "first", "blank"}, out[:]) {
		return undefValue
	}
	pad := "    "
	switch w := out[0]; {
	case w.k == kMarkup || v.k == kMarkup:
		return s.unsupported("indent of Markup")
	case w.k == kString:
		pad = w.s
	case w.isInt():
		if pad = repeatValue(s, a.line, strValue(" "), w.n).s; s.err != nil {
			return undefValue
		}
	case w.k != kMissing:
		return s.raise(a.line, "cannot indent by %s", w.typeName())
	}
	if v.k != kString {
		return s.raise(a.line, "cannot indent %s", v.typeName()) // s += newline is a TypeError
	}
	list := lines(v.s+"\n", false)
	if !s.step(len(list)) || !s.charge(len(v.s)+len(list)*(len(pad)+1)) {
		return undefValue
	}
	var b strings.Builder
	for i, line := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i > 0 && (line != "" || out[2].truthy()) || i == 0 && out[1].truthy() {
			b.WriteString(pad)
		}
		b.WriteString(line)
	}
	return strValue(b.String())
}

// wordsFilter counts runs of word characters.
func wordsFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "wordcount", 0, nil, nil) {
		return undefValue
	}
	return intValue(words(toStr(s, v)))
}

// reverseFilter turns a string around, and makes an iterator of anything else.
func reverseFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "reverse", 0, nil, nil) {
		return undefValue
	}
	if v.k == kString {
		return sliceValue(s, a.line, v, noneValue, noneValue, intValue(-1))
	}
	switch v.k {
	case kList, kTuple, kRange, kDict, kView, kGen:
	case kUndefined, kMarkup:
		return s.unsupported("reverse of " + v.typeName())
	default:
		return s.raise(a.line, "argument must be iterable")
	}
	it := iterate(s, a.line, v)
	items := slices.Clone(it.all(s))
	if !s.charge(len(items) * valueBytes) {
		return undefValue
	}
	slices.Reverse(items)
	if v.k == kGen { // a value that cannot be iterated backwards becomes a list
		return s.listValue(kList, items)
	}
	return s.listValue(kGen, items)
}

// attrFilter is an attribute, never an item.
func attrFilter(s *state, v value, a args) value {
	var out [1]value
	if !bindArgs(s, a, "attr", 1, []string{"name"}, out[:]) {
		return undefValue
	}
	name := toStr(s, out[0])
	switch {
	case v.k == kNamespace:
		return getAttr(s, a.line, v, name)
	case v.k == kUndefined || v.k == kLoop || v.k == kMacro || v.k == kFunc || v.k == kMethod || strings.HasPrefix(name, "_"):
		return s.unsupported("attr of " + v.typeName())
	case hasAttr(v, name):
		return boundMethod(s, v, name)
	}
	return undefValue
}

// absFilter is abs(). The least integer has no positive counterpart here.
func absFilter(s *state, v value, a args) value {
	if !bindArgs(s, a, "abs", 0, nil, nil) {
		return undefValue
	}
	switch {
	case v.isInt() && v.n != math.MinInt64:
		return intValue(max(v.n, -v.n))
	case v.k == kFloat:
		return floatValue(math.Abs(v.float()))
	case v.isNum() || v.k == kBig:
		return s.unsupported(tooBig)
	}
	return s.raise(a.line, "bad operand type for abs(): %s", v.typeName())
}
