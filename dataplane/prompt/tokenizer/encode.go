package tokenizer

// Append adds the tokens of text to dst: tokens that stand in it by name, such as <|im_end|>, are found, and nothing is put
// around it. This is add_special_tokens=False of the Python library, and what SGLang does with a rendered chat.
// Bytes that are not UTF-8 count as U+FFFD, as Python's errors="replace" has it.
func (t *Tokenizer) Append(dst []uint32, text string) []uint32 {
	return t.append(dst, text, true)
}

// AppendBytes is Append for a text in bytes, which must not change meanwhile. They are not kept.
func (t *Tokenizer) AppendBytes(dst []uint32, text []byte) []uint32 {
	return t.append(dst, view(text), true)
}

// AppendSpecial is Append with what the post-processor puts around a text, such as <s>: add_special_tokens=True.
func (t *Tokenizer) AppendSpecial(dst []uint32, text string) []uint32 {
	dst = append(dst, t.post.before...)
	dst = t.append(dst, text, true)
	return append(dst, t.post.after...)
}

// append encodes a text; start says that it begins the whole text and does not go on one that was cut.
func (t *Tokenizer) append(dst []uint32, text string, start bool) []uint32 {
	text = valid(text)
	// The pool keeps a scratch for each processor in use; the collector may take those that are not.
	w := t.scratch.Get().(*scratch)
	w.text = w.text[:0]
	// The first search is over the text as it came, the second over what normalization makes of the parts between.
	m := matches{t: t, finder: t.added.raw, s: text}
	for m.next() {
		if m.token != nil {
			dst = append(dst, m.token.ID)
			continue
		}
		dst = t.segment(dst, w, text[m.from:m.to], start && m.from == 0)
	}
	w.release()
	t.scratch.Put(w)
	return dst
}

// segment encodes a text without tokens that are found before normalization.
func (t *Tokenizer) segment(dst []uint32, w *scratch, s string, start bool) []uint32 {
	mark := len(w.text)
	s = t.normalize(w, s)
	if t.added.normal == nil {
		dst = t.steps(dst, w, 0, s, start)
		w.text = w.text[:mark]
		return dst
	}
	m := matches{t: t, finder: t.added.normal, s: s}
	for m.next() {
		if m.token != nil {
			dst = append(dst, m.token.ID)
			continue
		}
		dst = t.steps(dst, w, 0, s[m.from:m.to], start && m.from == 0)
	}
	w.text = w.text[:mark]
	return dst
}

// normalize runs all normalizers. What it returns may be s itself, or lie in w.text.
func (t *Tokenizer) normalize(w *scratch, s string) string {
	for _, n := range t.norm {
		s = n.normalize(w, s)
	}
	return s
}

// steps hands s to the pre-tokenizers from number k on, and what they leave to the model.
func (t *Tokenizer) steps(dst []uint32, w *scratch, k int, s string, start bool) []uint32 {
	if k == len(t.pre.steps) {
		return t.leaf(dst, w, s)
	}
	st := &t.pre.steps[k]
	switch st.kind {
	case stepSplit:
		if st.behavior == isolated && k+1 == len(t.pre.steps) && t.pre.bytes && !t.pre.mixed {
			// Fast path: the last step of nearly every model, where each stretch is a piece whether it matched or not.
			for i := 0; i < len(s); {
				end, _ := st.find.next(s, i)
				dst = t.model.piece(dst, w, s[i:end])
				i = end
			}
			return dst
		}
		return t.split(dst, w, k, s, start)
	default:
		mark := len(w.text)
		s = st.rewrite(w, s, start)
		dst = t.steps(dst, w, k+1, s, start)
		w.text = w.text[:mark]
		return dst
	}
}

// rewrite is what the steps other than a split make of a text.
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
	return view(w.text[from:])
}

// split hands the parts of s to the next step. It is NormalizedString::split of the library, which makes a list of all stretches
// and then joins some; here a part waits until it is known whether the next stretch joins it.
func (t *Tokenizer) split(dst []uint32, w *scratch, k int, s string, start bool) []uint32 {
	st := &t.pre.steps[k]
	from, to := 0, 0             // the part that waits, since what follows may join it
	keep, before := false, false // whether it counts, and whether its last stretch matched
	for i := 0; i < len(s); {
		end, matched := st.find.next(s, i)
		matched = matched != st.invert
		if to > from && st.joins(before, matched) {
			to = end
		} else {
			if keep {
				dst = t.steps(dst, w, k+1, s[from:to], start && from == 0)
			}
			from, to = i, end
			keep = !matched || st.behavior != removed
		}
		before = matched
		i = end
	}
	if keep {
		dst = t.steps(dst, w, k+1, s[from:to], start && from == 0)
	}
	return dst
}

// joins reports whether a stretch belongs to the part before it, whose last stretch matched or not. Two matches in a row are
// never joined by the two behaviors of merging: the second of "a--b" stays alone, or goes with what is after it.
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

// leaf hands a part to the model.
func (t *Tokenizer) leaf(dst []uint32, w *scratch, s string) []uint32 {
	switch {
	// The model takes bytes, whether the steps saw bytes or GPT-2's alphabet.
	case t.pre.mixed:
		mark := len(w.text)
		w.text, _ = appendFromAlphabet(w.text, s)
		dst = t.model.piece(dst, w, view(w.text[mark:]))
		w.text = w.text[:mark]
		return dst
	case t.pre.bytes:
		return t.model.piece(dst, w, s)
	default:
		return t.model.text(dst, w, s)
	}
}
