package bpe

// CutAfter is the first place in a text, at least so many bytes behind its beginning, of which [Tokenizer.Cut] is the last: nothing
// behind it depends on what is before it. It is 0 where there is none. The text may begin behind such a place, and must be valid UTF-8.
func (t *Tokenizer) CutAfter(text []byte, least int) int {
	s := view(text)
	m := matches{t: t, finder: t.added.raw, s: s}
	for m.next() {
		switch {
		case m.token == nil && t.cutsNormal():
			inner := matches{t: t, finder: t.added.normal, s: s[m.from:m.to]}
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

// AppendRestBytes is [Tokenizer.AppendRest] for a text in bytes, which must not change meanwhile. They are not kept.
func (t *Tokenizer) AppendRestBytes(dst []uint32, rest []byte) []uint32 {
	return t.append(dst, view(rest), false)
}
