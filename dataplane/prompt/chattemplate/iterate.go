package chattemplate

import "unicode/utf8"

// iterator iterates over a Python value.
type iterator struct {
	items []value
	keys  []value // with items, pairs of both
	text  string  // its code points
	gen   *object
	at    int
	size  int // -1 where Python knows no length
}

// iterate is Python's iter(v). It raises for a value that is not iterable.
func iterate(s *state, line int, v value) iterator {
	switch v.k {
	case kList, kTuple, kRange:
		return iterator{items: v.o.items, size: len(v.o.items)}
	case kDict:
		return iterator{items: v.o.keys, size: len(v.o.keys)}
	case kView:
		it := iterator{items: v.o.items, size: len(v.o.keys)}
		switch v.n {
		case viewKeys:
			it.items = v.o.keys
		case viewItems:
			it.keys = v.o.keys
		}
		return it
	case kString, kMarkup:
		if !scan(s, len(v.s)) {
			return iterator{}
		}
		return iterator{text: v.s, size: runes(v.s)}
	case kGen:
		return iterator{gen: v.o, size: -1}
	case kUndefined:
		return iterator{}
	case kLoop:
		s.unsupported("iteration of loop")
		return iterator{}
	}
	s.raise(line, "%s object is not iterable", v.typeName())
	return iterator{}
}

func (it *iterator) next(s *state) (value, bool) {
	switch {
	case it.gen != nil:
		if it.gen.pos >= len(it.gen.items) {
			return value{}, false
		}
		it.gen.pos++
		return it.gen.items[it.gen.pos-1], true
	case it.text != "":
		_, n := utf8.DecodeRuneInString(it.text)
		c := it.text[:n]
		it.text = it.text[n:]
		return strValue(c), true
	case it.at >= len(it.items):
		return value{}, false
	}
	it.at++
	if it.keys != nil {
		return s.pair(it.keys[it.at-1], it.items[it.at-1]), true
	}
	return it.items[it.at-1], true
}

// all returns the remaining elements as a list, which may be shared with the iterated value.
func (it *iterator) all(s *state) []value {
	if it.keys == nil && it.text == "" && it.gen == nil {
		return it.items[it.at:]
	}
	if it.gen != nil {
		out := it.gen.items[it.gen.pos:]
		it.gen.pos = len(it.gen.items)
		return out
	}
	out := s.list(it.size)
	if out == nil {
		return nil
	}
	for i := range out {
		out[i], _ = it.next(s)
	}
	return out
}

// lengthOf is Python's len(v). It raises for a value without a length.
func lengthOf(s *state, line int, v value) int64 {
	switch v.k {
	case kList, kTuple, kRange, kDict, kView, kString, kMarkup, kUndefined:
		it := iterate(s, line, v)
		return int64(it.size)
	case kLoop:
		return v.o.loop.length(s)
	}
	s.raise(line, "object of type %s has no len()", v.typeName())
	return 0
}
