package chattemplate

import (
	"slices"
	"strings"
)

type filterFunc func(s *state, v value, a args) value

// filters are the filters that are rendered here. A template with another one is refused when it is
// compiled, or when its branch runs. Filters that look filters up go through their Template, or
// this table would refer to itself.
var filters = table[value, filterFunc]([]row[value, value]{
	{"capitalize", 0, textFilter(capitalize)},
	{"default|d default_value boolean", 0, defaultFilter},
	{"dictsort case_sensitive by reverse", 0, dictSortFilter},
	{"escape|e", 0, escapeFilter},
	{"first", 0, firstFilter},
	{"indent width first blank", 0, indentFilter},
	{"int default base", 0, intFilter},
	{"items", 0, itemsFilter},
	{"join d attribute", 0, joinFilter},
	{"last", 0, lastFilter},
	{"length|count", 0, lengthFilter},
	{"list", 0, listFilter},
	{"lower", 0, textFilter(lowerCase)},
	{"map *", 0, mapFilter},
	{"reject *", 0, selectFilter(false, false)},
	{"rejectattr *", 0, selectFilter(false, true)},
	{"replace old new count", 2, replaceFilter},
	{"reverse", 0, reverseFilter},
	{"safe", 0, safeFilter},
	{"select *", 0, selectFilter(true, false)},
	{"selectattr *", 0, selectFilter(true, true)},
	{"sort reverse case_sensitive attribute", 0, sortFilter},
	{"string", 0, stringFilter},
	{"title", 0, textFilter(titleWords)},
	{"tojson *", 0, toJSONFilter},
	{"trim chars", 0, trimFilter},
	{"unique case_sensitive attribute", 0, uniqueFilter},
	{"upper", 0, textFilter(upperCase)},
})

// row is a function of Python's on a value V: its names, parted by |, and its parameters, of which
// it needs the first ones. Arguments cannot name a parameter that is a digit. With a parameter * it
// reads its arguments by itself.
type row[V, R any] struct {
	names string
	need  int
	call  func(s *state, v V, a args) R
}

// table returns functions by name. Each gets one positional argument for each of its parameters,
// kMissing where there is none.
func table[V any, F ~func(*state, V, args) R, R any](rows []row[V, R]) map[string]F {
	out := map[string]F{}
	for _, r := range rows {
		words := strings.Fields(r.names)
		params, need, call := words[1:], r.need, r.call
		for name := range strings.SplitSeq(words[0], "|") {
			if len(params) == 1 && params[0] == "*" {
				out[name] = call
				continue
			}
			out[name] = func(s *state, v V, a args) (none R) {
				// Fast path: all parameters have arguments, or none has.
				if need == 0 && len(a.pos) == 0 && len(a.kw) == 0 {
					a.pos = missing[:len(params)]
				}
				if len(a.pos) == len(params) && len(a.kw) == 0 {
					return call(s, v, a)
				}
				defer s.release(len(s.stack))
				a, ok := s.bind(a, name, need, params)
				if !ok {
					return none
				}
				return call(s, v, a)
			}
		}
	}
	return out
}

// missing are arguments that were not given. Never written to.
var missing [4]value

func textFilter(f func(*state, string) string) filterFunc {
	return func(s *state, v value, _ args) value {
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
	return stripText(s, toStr(s, v), a, true, true)
}

// stringFilter is soft_str: Markup stays Markup.
func stringFilter(s *state, v value, a args) value {
	if v.k == kMarkup {
		return v
	}
	return strValue(toStr(s, v))
}

// safeFilter makes Markup. Templates write it behind tojson out of habit; output as it is, it
// changes nothing.
func safeFilter(s *state, v value, a args) value {
	return value{k: kMarkup, s: toStr(s, v)}
}

// escapeFilter escapes HTML unless the value is Markup.
func escapeFilter(s *state, v value, a args) value {
	if v.k == kMarkup {
		return v
	}
	return value{k: kMarkup, s: escaped(s, toStr(s, v))}
}

// defaultFilter replaces an undefined value, and with its second argument a false one. None alone
// is neither.
func defaultFilter(s *state, v value, a args) value {
	if v.k != kUndefined && (!a.pos[1].truthy() || v.truthy()) {
		return v
	}
	if a.pos[0].k == kMissing {
		return strValue("")
	}
	return a.pos[0]
}

// lengthFilter is len(): characters of a string, keys of a dict, and an error for a generator.
func lengthFilter(s *state, v value, a args) value {
	return intValue(lengthOf(s, a.line, v))
}

// listFilter makes a list. It may share its elements with its source, since no list can change.
func listFilter(s *state, v value, a args) value {
	it := iterate(s, a.line, v)
	items := it.all(s)
	if !s.step(len(items)) {
		return undefValue
	}
	return s.listValue(kList, items)
}

// firstFilter takes one element, of a generator as well, which then lacks it.
func firstFilter(s *state, v value, a args) value {
	it := iterate(s, a.line, v)
	if first, ok := it.next(s); ok {
		return first
	}
	return undefValue
}

// lastFilter takes the operands of reversed(): no generator.
func lastFilter(s *state, v value, a args) value {
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
	sep := toStr(s, a.pos[0])
	it := iterate(s, a.line, v)
	var parts []string
	size := 0
	for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
		if a.pos[1].given() {
			item = attributePath(s, a.line, item, a.pos[1])
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
	n := int64(-1)
	switch {
	case a.pos[2].isInt():
		n = a.pos[2].n
	case a.pos[2].given():
		return s.raise(a.line, "count must be an integer")
	}
	return replaceText(s, toStr(s, v), toStr(s, a.pos[0]), toStr(s, a.pos[1]), n)
}

// indentFilter indents all lines but the first, and not the empty ones. All of Python's line ends
// become \n.
func indentFilter(s *state, v value, a args) value {
	pad := "    "
	switch w := a.pos[0]; {
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
		if i > 0 && (line != "" || a.pos[2].truthy()) || i == 0 && a.pos[1].truthy() {
			b.WriteString(pad)
		}
		b.WriteString(line)
	}
	return strValue(b.String())
}

// reverseFilter turns a string around, and makes an iterator of anything else.
func reverseFilter(s *state, v value, a args) value {
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
