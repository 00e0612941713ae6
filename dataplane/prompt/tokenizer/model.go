package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// model turns pieces into tokens. It is read-only once built, but for its cache.
type model struct {
	vocab  vocab
	merges merges
	cache  *cache
	// ignoreMerges turns a piece that spells a token into that token, without merges.
	ignoreMerges bool

	// Byte-level models: the first token of each byte, and the merge of each two bytes.
	bytes     bool
	byteIDs   [256]optional
	bytePairs []pair // by left << 8 | right; nil where some byte has no token

	// Models of characters, as SentencePiece makes them.
	charIDs map[rune]uint32
	cuts    mergeCuts

	// A character without a token of its own becomes tokens of its bytes, or unk, or nothing.
	fallback [256]optional // <0x00> to <0xFF>
	unk      optional
	fuseUnk  bool
}

// optional is a token id that may be missing.
type optional struct {
	id uint32
	ok bool
}

func idOf(ids map[string]uint32, token string) optional {
	id, ok := ids[token]
	return optional{id, ok}
}

// newModel builds the model of a file; bytes means that a ByteLevel comes before it.
func newModel(raw json.RawMessage, bytes bool) (*model, map[string]uint32, error) {
	f, err := readModel(raw)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case f.Dropout != nil && *f.Dropout != 0:
		return nil, nil, unsupported("dropout, which makes encodings random")
	case f.Prefix != nil && *f.Prefix != "":
		return nil, nil, unsupported("continuing_subword_prefix")
	case f.Suffix != nil && *f.Suffix != "":
		return nil, nil, unsupported("end_of_word_suffix")
	case f.Vocab == nil || absent(f.Merges):
		return nil, nil, errors.New("the model has no vocab or no merges")
	}
	ids := f.Vocab
	if err := checkIDs(ids); err != nil {
		return nil, nil, err
	}
	m := &model{ignoreMerges: f.IgnoreMerges, bytes: bytes, fuseUnk: f.FuseUnk}
	if f.Unk != nil {
		// The library refuses a missing unk token only at its first use; it is refused here at
		// once.
		if m.unk = idOf(ids, *f.Unk); !m.unk.ok {
			return nil, nil, fmt.Errorf("the unk token %q is not in the vocabulary", *f.Unk)
		}
	}
	rules, err := newRules(f.Merges, ids, m.unk)
	if err != nil {
		return nil, nil, err
	}
	if err := m.build(ids, rules, f.ByteFallback); err != nil {
		return nil, nil, err
	}
	return m, ids, nil
}

// readModel decodes the model, which is nearly all of a file; its type is read only after a
// failure.
func readModel(raw json.RawMessage) (modelFile, error) {
	var f modelFile
	err := strict(raw, &f)
	kind := f.Type
	if err != nil {
		if kind, _ = typeOf(raw); kind == "" {
			kind = "BPE"
		}
	}
	// Old files leave the type out; then only a BPE has merges.
	if kind != "BPE" && kind != "" {
		return f, unsupported("the model " + kind)
	}
	return f, err
}

// checkIDs refuses ids that are too large or there twice: their decoding would be left to chance.
func checkIDs(ids map[string]uint32) error {
	var seen [maxID / 64]uint64
	for token, id := range ids {
		if err := checkID(token, id); err != nil {
			return err
		}
		if len(token) > maxToken {
			return overLimit("a token of %d bytes", len(token))
		}
		if seen[id/64]>>(id%64)&1 != 0 {
			return fmt.Errorf("two tokens have the id %d, of which one is %q", id, token)
		}
		seen[id/64] |= 1 << (id % 64)
	}
	return nil
}

// newRules looks up the tokens of each merge.
func newRules(raw json.RawMessage, ids map[string]uint32, unk optional) ([]merge, error) {
	lines, err := parseMerges(raw)
	if err != nil {
		return nil, err
	}
	rules := make([]merge, 0, len(lines))
	for rank, line := range lines {
		left, okLeft := ids[line[0]]
		right, okRight := ids[line[1]]
		result, okResult := ids[line[0]+line[1]]
		if !okLeft || !okRight || !okResult {
			return nil, fmt.Errorf("the merge of %q and %q needs a token that is not in the vocabulary", line[0], line[1])
		}
		if unk.ok && (left == unk.id || right == unk.id) {
			return nil, unsupported("a merge of the unk token")
		}
		rules = append(rules, merge{left, right, result, uint32(rank)})
	}
	return rules, nil
}

// build makes the tables from a vocabulary in the file's spelling.
func (m *model) build(ids map[string]uint32, rules []merge, byteFallback bool) error {
	var err error
	if m.merges, err = newMerges(rules); err != nil {
		return err
	}
	top := uint32(0)
	for _, id := range ids {
		top = max(top, id)
	}
	tokens := make([][]byte, top+1)
	for token, id := range ids {
		spelled, ok := []byte(token), true
		if m.bytes {
			spelled, ok = fromAlphabet(token)
		}
		if ok {
			tokens[id] = spelled
		}
	}
	m.vocab = newVocab(tokens)
	m.cache = newCache(cacheBits)
	if byteFallback {
		for b := range m.fallback {
			m.fallback[b] = idOf(ids, fmt.Sprintf("<0x%02X>", b))
		}
	}
	if m.bytes {
		m.buildBytes(ids)
	} else {
		m.buildChars(ids, rules)
	}
	m.findWhole(tokens)
	return nil
}

// cacheBits is the size of the cache of pieces: 65,536 short ones are 4 MiB, and hold the distinct
// words of some 10 MB of prose.
const cacheBits = 16

func (m *model) buildBytes(ids map[string]uint32) {
	complete := true
	for b := range 256 {
		m.byteIDs[b] = idOf(ids, alphabet[b])
		complete = complete && m.byteIDs[b].ok
	}
	if !complete {
		return
	}
	m.bytePairs = make([]pair, 1<<16)
	for i := range m.bytePairs {
		m.bytePairs[i] = m.merges.of(m.byteIDs[i>>8].id, m.byteIDs[i&0xFF].id)
	}
}

// buildChars finds the characters that are tokens, and the cuts between them.
func (m *model) buildChars(ids map[string]uint32, rules []merge) {
	m.charIDs = map[rune]uint32{}
	for token, id := range ids {
		if r, n := utf8.DecodeRuneInString(token); n == len(token) && n > 0 {
			m.charIDs[r] = id
		}
	}
	m.cuts = m.newCuts(rules)
}

// findWhole marks the tokens that their own bytes merge to: a piece that spells one need not be
// merged.
func (m *model) findWhole(tokens [][]byte) {
	var w scratch
	var out []uint32
	for id, token := range tokens {
		if len(token) == 0 {
			continue
		}
		if !m.ignoreMerges {
			out = m.merge(out[:0], &w, view(token))
			if len(out) != 1 || out[0] != uint32(id) {
				continue
			}
		}
		m.vocab.setWhole(uint32(id))
	}
}
