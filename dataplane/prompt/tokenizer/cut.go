package tokenizer

import "strings"

// CutAfter returns the first offset in text, at least so many bytes behind its beginning, behind
// which nothing depends on the text before: the end of an added token that allows it, or 0. For any
// text that continues it,
//
//	Append(nil, text[:cut]+more) == Append(nil, text[:cut]) + AppendRest(nil, more)
//
// so a conversation with a known beginning needs only its end encoded. Chat templates end each
// message with such a token. The text may begin behind a cut, and must be UTF-8.
//
// A token allows a cut when it is found regardless of the text after it: no other added token
// contains it and continues, or begins within it; it does not depend on the character after it
// (single_word, rstrip); and it is not itself found in normalized text, unless nothing is
// normalized.
func (t *Tokenizer) CutAfter(text []byte, least int) int {
	s := view(text)
	m := matches{tables: t.tables, finder: t.added.raw, s: s}
	for m.next() {
		switch {
		case m.token == nil && t.cutsNormal():
			inner := matches{tables: t.tables, finder: t.added.normal, s: s[m.from:m.to]}
			for inner.next() {
				if end := m.from + inner.to; inner.token != nil && end >= least && t.safe[inner.token.ID] {
					return end
				}
			}
		case m.token != nil && m.to >= least && t.safe[m.token.ID]:
			return m.to
		}
	}
	return 0
}

// cutsNormal reports whether the search of normalized text can run on the original text.
func (e *encoder) cutsNormal() bool { return e.added.normal != nil && len(e.norm) == 0 }

// dropReached removes tokens with an end that another token could cover. One search finds the
// leftmost token, so a token that begins inside another one comes too late; only a token that
// contains it and continues is found in its place. But the search of raw tokens goes first and may
// take the end of a normalized one.
func (e *encoder) dropReached(safe map[uint32]bool) {
	many := e.cutsNormal() && e.added.raw != nil && len(e.added.raw.entries)*len(e.added.normal.entries) > maxOverlaps
	if many {
		for _, e := range e.added.normal.entries {
			safe[e.token.ID] = false
		}
	}
	for _, outer := range e.added.byID {
		s := outer.Content
		drop := func(end int, inner *addedToken) {
			if end < len(s) {
				safe[inner.ID] = false
			}
		}
		for i := range len(s) {
			if !outer.Normalized && e.added.raw != nil {
				e.added.raw.each(s, i, drop)
			}
			if e.cutsNormal() {
				e.added.normal.each(s, i, drop)
			}
		}
		if outer.Normalized || !e.cutsNormal() || many {
			continue
		}
		for _, e := range e.added.normal.entries {
			if overlaps(e.token.Content, s) {
				safe[e.token.ID] = false
			}
		}
	}
}

// maxOverlaps bounds the pairs of tokens that are compared; real files have some thousand. Beyond
// it no normalized token is a cut.
const maxOverlaps = 1 << 18

// overlaps reports whether the end of a is the beginning of b, and b goes on.
func overlaps(a, b string) bool {
	for n := 1; n <= len(a) && n < len(b); n++ {
		if strings.HasSuffix(a, b[:n]) {
			return true
		}
	}
	return false
}
