package tokenizer

import "unicode/utf8"

// mergeCuts are the positions at which a text may be cut without changing its tokens. With them, a
// model of characters, which gets whole paragraphs as one piece, can be computed and cached in
// pieces of about a word.
//
// A cut is between two characters that no token made by merges holds side by side: then no merge
// crosses the cut, and neither side depends on the other.
type mergeCuts struct {
	on     bool
	kinds  [utf8.RuneSelf]uint8
	joined [kinds][kinds]bool
}

// The kinds of characters: each of ASCII, the sign with which SentencePiece writes a space, and all
// others. A character without a token counts among the others, since unk tokens may be fused.
const (
	kindMarker = utf8.RuneSelf + iota
	kindOther
	kinds

	metaMarker = '▁'
)

// newCuts computes the cuts from the results of the merges.
func (m *model) newCuts(rules []merge) mergeCuts {
	var c mergeCuts
	if _, ok := m.charIDs[metaMarker]; !ok || m.ignoreMerges {
		return c // with ignore_merges, a piece that is a token as a whole would be missed
	}
	for r := range rune(utf8.RuneSelf) {
		c.kinds[r] = kindOther
		if _, ok := m.charIDs[r]; ok {
			c.kinds[r] = uint8(r)
		}
	}
	c.joined[kindOther][kindOther] = true
	fallback := map[uint32]bool{}
	for _, id := range m.fallback {
		fallback[id.id] = fallback[id.id] || id.ok
	}
	for _, rule := range rules {
		if fallback[rule.left] || fallback[rule.right] {
			return mergeCuts{} // such a token does not spell the text that it means
		}
		before := -1
		for _, r := range string(m.vocab.bytes(rule.result)) {
			kind := c.kind(r)
			if before >= 0 {
				c.joined[before][kind] = true
			}
			before = int(kind)
		}
	}
	c.on = true
	return c
}

func (c *mergeCuts) kind(r rune) uint8 {
	switch {
	case r < utf8.RuneSelf:
		return c.kinds[r]
	case r == metaMarker:
		return kindMarker
	default:
		return kindOther
	}
}

// next is where the stretch that begins at s[i] ends.
func (c *mergeCuts) next(s string, i int) int {
	r, n := decode(s, i)
	before := c.kind(r)
	for i += n; i < len(s); i += n {
		r, n = decode(s, i)
		kind := c.kind(r)
		if !c.joined[before][kind] {
			break
		}
		before = kind
	}
	return i
}

// text appends the tokens of a text that the pre-tokenizer leaves whole.
func (m *model) text(dst []uint32, w *scratch, s string) []uint32 {
	if !m.cuts.on {
		return m.piece(dst, w, s)
	}
	for i := 0; i < len(s); {
		end := m.cuts.next(s, i)
		dst = m.piece(dst, w, s[i:end])
		i = end
	}
	return dst
}
