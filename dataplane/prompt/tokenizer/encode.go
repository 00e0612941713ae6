package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// encoder computes tokens: added tokens, normalizers, pre-tokenizers, model.
type encoder struct {
	tables  *unicodeTables
	model   *model
	norm    []normalizer
	pre     preTokenizer
	added   addedTokens
	scratch sync.Pool // of *scratch
}

// append encodes a text; start means that it begins the whole text and does not continue one that
// was cut.
func (e *encoder) append(dst []uint32, text string, start bool) ([]uint32, error) {
	if !utf8.ValidString(text) {
		return dst, errUTF8
	}
	before := len(dst)
	// The pool keeps a scratch for each processor in use; the collector may take idle ones.
	w := e.scratch.Get().(*scratch)
	w.text, w.budget = w.text[:0], newBudget(len(text))
	// The first search is over the original text, the second over the normalized parts between.
	m := matches{tables: e.tables, finder: e.added.raw, s: text}
	for m.next() {
		if m.token != nil {
			dst = append(dst, m.token.ID)
			continue
		}
		if dst = e.segment(dst, w, text[m.from:m.to], start && m.from == 0); w.over {
			break
		}
	}
	over := w.over
	w.release()
	e.scratch.Put(w)
	if over {
		return dst[:before], ErrLimit
	}
	return dst, nil
}

// segment encodes a text without tokens that are found before normalization.
func (e *encoder) segment(dst []uint32, w *scratch, s string, start bool) []uint32 {
	mark := len(w.text)
	if s = e.normalize(w, s); w.over {
		return dst
	}
	if e.added.normal == nil {
		dst = e.steps(dst, w, 0, s, start)
		w.text = w.text[:mark]
		return dst
	}
	m := matches{tables: e.tables, finder: e.added.normal, s: s}
	for m.next() {
		if m.token != nil {
			dst = append(dst, m.token.ID)
			continue
		}
		dst = e.steps(dst, w, 0, s[m.from:m.to], start && m.from == 0)
	}
	w.text = w.text[:mark]
	return dst
}

// normalize runs all normalizers. The result may be s itself, or lie in w.text.
func (e *encoder) normalize(w *scratch, s string) string {
	for _, n := range e.norm {
		if s = n.normalize(w, s); w.over {
			break
		}
	}
	return s
}

// steps passes s to the pre-tokenizers from number k on, and their parts to the model.
func (e *encoder) steps(dst []uint32, w *scratch, k int, s string, start bool) []uint32 {
	if w.over {
		return dst
	}
	if k == len(e.pre.steps) {
		return e.leaf(dst, w, s)
	}
	st := &e.pre.steps[k]
	switch st.kind {
	case stepSplit:
		if st.behavior == isolated && k+1 == len(e.pre.steps) && e.pre.bytes && !e.pre.mixed {
			// Fast path: the last step of nearly every model, where each stretch is a piece whether
			// it matched or not.
			for i := 0; i < len(s) && !w.over; {
				end, _ := st.find.next(&w.budget, s, i)
				dst = e.model.piece(dst, w, s[i:end])
				i = end
			}
			return dst
		}
		return e.split(dst, w, k, s, start)
	default:
		mark := len(w.text)
		s = st.rewrite(w, s, start)
		dst = e.steps(dst, w, k+1, s, start)
		w.text = w.text[:mark]
		return dst
	}
}

// rewrite applies a step other than a split to a text.
func (st *step) rewrite(w *scratch, s string, start bool) string {
	from := len(w.text)
	switch st.kind {
	case stepSpace:
		if s == "" || s[0] == ' ' {
			return s
		}
		w.text = append(w.text, ' ')
		w.text = append(w.text, s...)
	case stepBytes:
		w.text = toAlphabet(w.text, s)
	default:
		if s == "" {
			return s
		}
		// A space becomes a marker before the library looks whether one is there already.
		marked := s[0] == ' ' || len(s) >= len(st.marker) && s[:len(st.marker)] == st.marker
		if !marked && (st.scheme == always || st.scheme == first && start) {
			w.text = append(w.text, st.marker...)
		}
		for i := range len(s) {
			if s[i] == ' ' {
				w.text = append(w.text, st.marker...)
			} else {
				w.text = append(w.text, s[i])
			}
		}
	}
	return w.made(from)
}

// split passes the parts of s to the next step. It is NormalizedString::split of the library, which
// makes a list of all stretches and then joins some; here a part waits until it is known whether
// the next stretch joins it.
func (e *encoder) split(dst []uint32, w *scratch, k int, s string, start bool) []uint32 {
	st := &e.pre.steps[k]
	from, to := 0, 0             // the part that waits, since the next stretch may join it
	keep, before := false, false // whether it counts, and whether its last stretch matched
	for i := 0; i < len(s); {
		end, matched := st.find.next(&w.budget, s, i)
		matched = matched != st.invert
		if to > from && st.joins(before, matched) {
			to = end
		} else {
			if keep {
				dst = e.steps(dst, w, k+1, s[from:to], start && from == 0)
			}
			from, to = i, end
			keep = !matched || st.behavior != removed
		}
		before = matched
		i = end
	}
	if keep {
		dst = e.steps(dst, w, k+1, s[from:to], start && from == 0)
	}
	return dst
}

// joins reports whether a stretch belongs to the part before it; before is true if its last stretch
// matched. The two behaviors of merging never join two matches in a row: the second of "a--b" stays
// alone, or joins the part after it.
func (st *step) joins(before, matched bool) bool {
	switch st.behavior {
	case contiguous:
		return before == matched
	case withBefore:
		return matched && !before
	case withAfter:
		return before && !matched
	default:
		return false
	}
}

// leaf passes a part to the model.
func (e *encoder) leaf(dst []uint32, w *scratch, s string) []uint32 {
	switch {
	// The model takes bytes, whether the steps saw bytes or GPT-2's alphabet.
	case e.pre.mixed:
		mark := len(w.text)
		w.text, _ = appendFromAlphabet(w.text, s)
		dst = e.model.piece(dst, w, view(w.text[mark:]))
		w.text = w.text[:mark]
		return dst
	case e.pre.bytes:
		return e.model.piece(dst, w, s)
	default:
		return e.model.text(dst, w, s)
	}
}

// safeEnds are the tokens behind which a text may be cut; see CutAfter.
func (e *encoder) safeEnds() map[uint32]bool {
	words := false // whether some token depends on the character before it
	for _, token := range e.added.byID {
		words = words || token.SingleWord
	}
	safe := map[uint32]bool{}
	for id, token := range e.added.byID {
		last := matches{tables: e.tables, s: token.Content}
		looks := token.SingleWord || token.RStrip || words && !last.isSingleWord(len(token.Content), len(token.Content))
		safe[id] = !looks && (!token.Normalized || e.cutsNormal())
	}
	e.dropReached(safe)
	return safe
}
