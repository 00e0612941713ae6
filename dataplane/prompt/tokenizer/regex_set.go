package tokenizer

import (
	"cmp"
	"slices"
	"sort"
	"unicode/utf8"
)

// span is a range of characters, both ends included.
type span struct{ lo, hi rune }

// set is a set of characters: spans in order that neither touch nor overlap.
type set []span

// normal sorts spans and joins those that touch.
func normal(spans []span) set {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	var out set
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (s set) has(r rune) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].hi >= r })
	return i < len(s) && s[i].lo <= r
}

// union is the set of characters in any of the sets.
func union(sets ...set) set { return normal(slices.Concat(sets...)) }

// invert is every other character.
func (s set) invert() set {
	var out set
	next := rune(0)
	for _, x := range s {
		if x.lo > next {
			out = append(out, span{next, x.lo - 1})
		}
		next = x.hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, span{next, utf8.MaxRune})
	}
	return out
}

func (s set) intersect(other set) set {
	return union(s.invert(), other.invert()).invert()
}

func only(runes ...rune) set {
	var out []span
	for _, r := range runes {
		out = append(out, span{r, r})
	}
	return normal(out)
}

// propertySet is the set of \p{name}: a general category, a union of them by its first letter, or a
// script.
func propertySet(t *unicodeTables, name string) (set, bool) {
	unions := map[string][]string{
		"L": {"Lu", "Lt", "Ll", "Lm", "Lo"},
		"M": {"Mn", "Mc", "Me"},
		"N": {"Nd", "Nl", "No"},
		"P": {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"},
		"S": {"Sm", "Sc", "Sk", "So"},
		"Z": {"Zs", "Zl", "Zp"},
	}
	if parts, ok := unions[name]; ok {
		var out []span
		for _, part := range parts {
			out = append(out, t.sets[part]...)
		}
		return normal(out), true
	}
	// Names in small letters are this package's own, not the pattern's.
	if s, ok := t.sets[name]; ok && name[0] < 'a' {
		return normal(s), true
	}
	return nil, false
}

// chars is a set with fast look-up: a bitmap for ASCII, then the spans.
type chars struct {
	ascii [2]uint64
	set   set
}

func newChars(s set) *chars {
	c := &chars{set: s}
	for r := range rune(128) {
		if s.has(r) {
			c.ascii[r/64] |= 1 << (r % 64)
		}
	}
	return c
}

// at reports whether the character at s[i] is in the set, and its length.
func (c *chars) at(s string, i int) (bool, int) {
	if b := s[i]; b < 0x80 {
		return c.ascii[b/64]>>(b%64)&1 != 0, 1
	}
	r, n := decode(s, i)
	return c.set.has(r), n
}
