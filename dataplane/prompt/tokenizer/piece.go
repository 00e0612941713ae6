package tokenizer

// piece appends the tokens of one piece: a stretch of text as the pre-tokenizer leaves it.
func (m *model) piece(dst []uint32, w *scratch, s string) []uint32 {
	n := len(s)
	if n > slotKey {
		return m.longPiece(dst, w, s)
	}
	if n == 0 {
		return dst
	}
	k := keyOf(s)
	hash := k.hash(n)
	dst, ok := m.cache.get(dst, k, n, hash)
	if ok {
		return dst
	}
	from := len(dst)
	dst = m.lookup(dst, w, s)
	// A piece of many tokens is foreign to the vocabulary and rarely comes again.
	if ids := dst[from:]; len(ids) > 0 && len(ids) <= slotIDs {
		m.cache.put(k, n, hash, ids)
	}
	return dst
}

// longPiece is piece for a text that does not fit in a slot: clauses of Chinese, long names, rules
// of dashes.
func (m *model) longPiece(dst []uint32, w *scratch, s string) []uint32 {
	if len(s) > maxLong {
		return m.lookup(dst, w, s)
	}
	dst, ok := m.cache.getLong(dst, s)
	if ok {
		return dst
	}
	from := len(dst)
	dst = m.lookup(dst, w, s)
	m.cache.putLong(s, dst[from:])
	return dst
}

// lookup is piece without the cache.
func (m *model) lookup(dst []uint32, w *scratch, s string) []uint32 {
	// Most words of a text are tokens, and most tokens are the merge of their bytes: one look-up
	// replaces ten merges.
	if id, ok := m.vocab.find(s); ok && m.vocab.isWhole(id) {
		return append(dst, id)
	}
	return m.merge(dst, w, s)
}

// merge appends the tokens of a piece by the merges alone.
func (m *model) merge(dst []uint32, w *scratch, s string) []uint32 {
	switch {
	case !m.bytes:
		m.startChars(w, s)
	case m.bytePairs != nil && len(s) <= maxScan:
		return m.mergeBytes(dst, w, s)
	default:
		m.startBytes(w, s)
	}
	return m.merges.mergeAll(dst, w)
}

// mergeBytes is merge for a short piece of a byte-level model with a token for each byte.
func (m *model) mergeBytes(dst []uint32, w *scratch, s string) []uint32 {
	syms, vals := w.syms[:0], w.vals[:0]
	for i := range len(s) {
		syms = append(syms, m.byteIDs[s[i]].id)
		if i > 0 {
			vals = append(vals, m.bytePairs[int(s[i-1])<<8|int(s[i])])
		}
	}
	w.syms, w.vals = syms, vals
	return m.merges.mergeShort(dst, syms, vals)
}

// startBytes sets w.syms to the first tokens of the bytes of s.
func (m *model) startBytes(w *scratch, s string) {
	w.syms = w.syms[:0]
	pending := false
	for i := range len(s) {
		if id := m.byteIDs[s[i]]; id.ok {
			pending = m.flush(w, pending)
			w.syms = append(w.syms, id.id)
			continue
		}
		pending = m.unknown(w, alphabet[s[i]], pending)
	}
	m.flush(w, pending)
}

// startChars sets w.syms to the first tokens of the characters of s; merge_word in
// tokenizers/src/models/bpe/model.rs.
func (m *model) startChars(w *scratch, s string) {
	w.syms = w.syms[:0]
	pending := false
	for i := 0; i < len(s); {
		r, n := decode(s, i)
		if id, ok := m.charIDs[r]; ok {
			pending = m.flush(w, pending)
			w.syms = append(w.syms, id)
		} else {
			pending = m.unknown(w, s[i:i+n], pending)
		}
		i += n
	}
	m.flush(w, pending)
}

// unknown adds the tokens of a character without a token. An unk token waits, to be fused with the
// next; the byte fallback of a later character overtakes it, as it does in the library.
func (m *model) unknown(w *scratch, c string, pending bool) bool {
	before := len(w.syms)
	for i := range len(c) {
		id := m.fallback[c[i]]
		if !id.ok {
			w.syms = w.syms[:before]
			break
		}
		w.syms = append(w.syms, id.id)
	}
	if len(w.syms) > before || !m.unk.ok {
		return pending
	}
	if !m.fuseUnk {
		m.flush(w, pending)
	}
	return true
}

// flush adds the unk token where one waits.
func (m *model) flush(w *scratch, pending bool) bool {
	if pending {
		w.syms = append(w.syms, m.unk.id)
	}
	return false
}
