package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// attributePath looks an attribute of an item up, as make_attrgetter of jinja2/filters.py does:
// parts between dots, numbers as indices.
func attributePath(s *state, line int, item, attribute value) value {
	switch attribute.k {
	case kNone, kMissing:
		return item
	case kString, kMarkup:
		rest := attribute.s
		for more := true; more && s.step(1); {
			var part string
			part, rest, more = strings.Cut(rest, ".")
			key := strValue(part)
			if part != "" && strings.Trim(part, "0123456789") == "" {
				n, err := strconv.ParseInt(part, 10, 64)
				if err != nil {
					return s.unsupported(tooBig)
				}
				key = intValue(n)
			}
			item = getItem(s, line, item, key)
		}
		return item
	}
	return getItem(s, line, item, attribute)
}

// lazyList runs at once the code that Python runs when its generator is iterated. An error of it
// becomes ErrUnsupported: Python may never reach it.
func lazyList(s *state, run func() []value) value {
	before := s.err
	items := run()
	if before == nil && s.err != nil && errors.Is(s.err, ErrTemplate) {
		s.err = fmt.Errorf("%w: %s inside of a generator", ErrUnsupported, s.err.Error())
	}
	return s.listValue(kGen, items)
}

// mapFilter applies an attribute or a filter to each element. A false value, None too, maps to
// nothing.
func mapFilter(s *state, v value, a args) value {
	return lazyList(s, func() []value {
		if !v.truthy() {
			return nil
		}
		apply := itemMapper(s, a)
		if apply == nil {
			return nil
		}
		it := iterate(s, a.line, v)
		var out []value
		for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
			out = append(out, apply(item))
		}
		s.charge(len(out) * valueBytes)
		return out
	})
}

// itemMapper returns the function that map applies to one item.
func itemMapper(s *state, a args) func(value) value {
	if len(a.pos) == 0 {
		a, ok := s.bind(a, "map", 1, []string{"attribute", "default"})
		if !ok {
			return nil
		}
		attribute, fallback := a.pos[0], a.pos[1]
		if fallback.given() && attribute.k == kString && strings.Contains(attribute.s, ".") {
			s.unsupported("map with a default and a path")
		}
		return func(item value) value {
			item = attributePath(s, a.line, item, attribute)
			if item.k == kUndefined && fallback.given() {
				return fallback
			}
			return item
		}
	}
	f := s.t.filters[a.pos[0].s]
	if a.pos[0].k != kString || f == nil {
		s.unsupported("map of filter " + toStr(s, a.pos[0]))
		return nil
	}
	rest := args{line: a.line, pos: a.pos[1:], names: a.names, kw: a.kw}
	return func(item value) value {
		scan(s, len(item.s))
		return f(s, item, rest)
	}
}

// selectFilter is select, reject, selectattr and rejectattr: it keeps the elements that pass a
// test, or do not, by themselves or by an attribute.
func selectFilter(want, byAttr bool) filterFunc {
	return func(s *state, v value, a args) value {
		return lazyList(s, func() []value {
			if !v.truthy() {
				return nil
			}
			attribute := noneValue
			rest := a
			if byAttr {
				if len(a.pos) == 0 {
					s.raise(a.line, "Missing parameter for attribute name")
					return nil
				}
				attribute, rest.pos = a.pos[0], a.pos[1:]
			}
			var f testFunc
			if len(rest.pos) > 0 {
				if f = s.t.tests[rest.pos[0].s]; f == nil || rest.pos[0].k != kString {
					s.unsupported("selection by test " + toStr(s, rest.pos[0]))
					return nil
				}
				rest.pos = rest.pos[1:]
			}
			var out []value
			it := iterate(s, a.line, v)
			for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
				x := attributePath(s, a.line, item, attribute)
				if scan(s, len(x.s)); s.err != nil {
					break
				}
				if f != nil && f(s, x, rest) == want || f == nil && x.truthy() == want {
					out = append(out, item)
				}
			}
			s.charge(len(out) * valueBytes)
			return out
		})
	}
}

// foldedCase is ignore_case of jinja2/filters.py.
func foldedCase(s *state, v value, caseSensitive bool) value {
	if v.k == kString && !caseSensitive && scan(s, len(v.s)) {
		return strValue(lowerCase(s, v.s))
	}
	return v
}

// keyed is an item with its sort key.
type keyed struct{ key, item value }

// sortedItems sorts stably by key, as Python's sorted does.
func sortedItems(s *state, line int, list []keyed, reverse bool) []value {
	if !s.step(len(list)*4) || !s.charge(len(list)*3*valueBytes) {
		return nil
	}
	slices.SortStableFunc(list, func(x, y keyed) int {
		if s.err != nil {
			return 0
		}
		c, _ := orderValues(s, line, x.key, y.key)
		if reverse {
			return -c
		}
		return c
	})
	out := make([]value, len(list))
	for i := range list {
		out[i] = list[i].item
	}
	return out
}

// sortFilter sorts stably, without regard to case unless told so, by attributes parted by commas.
func sortFilter(s *state, v value, a args) value {
	attributes := []value{a.pos[2]}
	if a.pos[2].k == kString {
		attributes = attributes[:0]
		for part := range strings.SplitSeq(a.pos[2].s, ",") {
			attributes = append(attributes, strValue(part))
		}
	}
	it := iterate(s, a.line, v)
	var list []keyed
	for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
		var keys []value
		for _, attribute := range attributes {
			keys = append(keys, foldedCase(s, attributePath(s, a.line, item, attribute), a.pos[1].truthy()))
		}
		list = append(list, keyed{s.listValue(kList, keys), item})
	}
	return s.listValue(kList, sortedItems(s, a.line, list, a.pos[0].truthy()))
}

// dictSortFilter is a list of a dict's pairs, sorted by key or by value.
func dictSortFilter(s *state, v value, a args) value {
	at := 0
	switch by := a.pos[1]; {
	case by.k == kMissing || by.k == kString && by.s == "key":
	case by.k == kString && by.s == "value":
		at = 1
	default:
		return s.raise(a.line, "You can only sort by either key or value")
	}
	if v.k != kDict {
		return s.raise(a.line, "%s has no items", v.typeName())
	}
	it := iterate(s, a.line, value{k: kView, n: viewItems, o: v.o})
	var list []keyed
	for item, ok := it.next(s); ok && s.step(1) && s.err == nil; item, ok = it.next(s) {
		list = append(list, keyed{foldedCase(s, item.o.items[at], a.pos[0].truthy()), item})
	}
	return s.listValue(kList, sortedItems(s, a.line, list, a.pos[2].truthy()))
}

// uniqueFilter keeps the first of equal elements. It compares each with all before; the steps count
// that.
func uniqueFilter(s *state, v value, a args) value {
	return lazyList(s, func() []value {
		seen := s.object()
		var list []value
		it := iterate(s, a.line, v)
		for item, ok := it.next(s); ok && s.step(1+len(list)); item, ok = it.next(s) {
			key := foldedCase(s, attributePath(s, a.line, item, a.pos[1]), a.pos[0].truthy())
			before := len(seen.keys)
			if putKey(s, seen, key, noneValue); len(seen.keys) > before {
				list = append(list, item)
			}
		}
		return list
	})
}
