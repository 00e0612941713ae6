package tokenizer

import "strings"

// Cut is a place in text behind which nothing depends on what is before it: the end of the last added token that allows
// it, or 0. For any text that goes on after it,
//
//	Append(nil, text[:cut]+more) == Append(nil, text[:cut]) + AppendRest(nil, more)
//
// so a conversation whose beginning was encoded once needs only its end encoded. Chat templates end each message with
// such a token.
//
// A token allows it when it is found whatever follows: no other added token contains it and goes on, or begins within
// it; it does not look at what is after it (single_word, rstrip); and it is not itself found in normalized text, unless
// nothing is normalized.
func (t *Tokenizer) Cut(text string) int {
	text = valid(text)
	cut := 0
	for {
		// What is behind a place is read as a text of its own: that is what makes it one.
		next := t.cutAfter(text[cut:], 1)
		if next == 0 {
			return cut
		}
		cut += next
	}
}

// CutAfter is the first place in a text, at least so many bytes behind its beginning, of which [Tokenizer.Cut] is the last. It
// is 0 where there is none. The text may begin behind such a place, and must be valid UTF-8.
func (t *Tokenizer) CutAfter(text []byte, least int) int { return t.cutAfter(view(text), least) }

func (t *Tokenizer) cutAfter(s string, least int) int {
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

// AppendRest is Append for a text that goes on behind a Cut.
func (t *Tokenizer) AppendRest(dst []uint32, rest string) []uint32 {
	return t.append(dst, rest, false)
}

// AppendRestBytes is [Tokenizer.AppendRest] for a text in bytes, which must not change meanwhile. They are not kept.
func (t *Tokenizer) AppendRestBytes(dst []uint32, rest []byte) []uint32 {
	return t.append(dst, view(rest), false)
}

// AppendSegment adds the tokens of a text in which added tokens are not looked for, so that <|im_end|> in a user's words
// stays words. start says that it begins the whole text. Python does this with split_special_tokens=True for special
// tokens; here no added token is found. Together with ID it builds a prompt from parts that each are computed once:
// the tokens of a template's texts, its special tokens and its messages, as long as the engine builds the prompt so too.
func (t *Tokenizer) AppendSegment(dst []uint32, text string, start bool) []uint32 {
	text = valid(text)
	w := t.scratch.Get().(*scratch)
	w.text = w.text[:0]
	dst = t.steps(dst, w, 0, t.normalize(w, text), start)
	w.release()
	t.scratch.Put(w)
	return dst
}

// cutsNormal reports whether tokens that are found in normalized text are found in the text as it came.
func (t *Tokenizer) cutsNormal() bool { return t.added.normal != nil && len(t.norm) == 0 }

// safeEnds are the tokens behind which a text may be cut; see Cut.
func (t *Tokenizer) safeEnds() map[uint32]bool {
	words := false // whether some token looks at the character before it
	for _, token := range t.added.byID {
		words = words || token.SingleWord
	}
	safe := map[uint32]bool{}
	for id, token := range t.added.byID {
		last := matches{t: t, s: token.Content}
		looks := token.SingleWord || token.RStrip || words && !last.alone(len(token.Content), len(token.Content))
		safe[id] = !looks && (!token.Normalized || t.cutsNormal())
	}
	t.dropReached(safe)
	return safe
}

// dropReached takes out the tokens over whose end another token could be found. Within one search the leftmost is found, so
// a token that begins inside another one comes too late; only one that contains it and goes on is found in its place.
// But the search of raw tokens goes first and may take the end of a normalized one.
func (t *Tokenizer) dropReached(safe map[uint32]bool) {
	for _, outer := range t.added.byID {
		s := outer.Content
		drop := func(end int, inner *addedToken) {
			if end < len(s) {
				safe[inner.ID] = false
			}
		}
		for i := range len(s) {
			if !outer.Normalized && t.added.raw != nil {
				t.added.raw.each(s, i, drop)
			}
			if t.cutsNormal() {
				t.added.normal.each(s, i, drop)
			}
		}
		if outer.Normalized || !t.cutsNormal() {
			continue
		}
		for _, e := range t.added.normal.entries {
			if overlaps(e.token.Content, s) {
				safe[e.token.ID] = false
			}
		}
	}
}

// overlaps reports whether the end of a is the beginning of b, and b goes on.
func overlaps(a, b string) bool {
	for n := 1; n <= len(a) && n < len(b); n++ {
		if strings.HasSuffix(a, b[:n]) {
			return true
		}
	}
	return false
}
