package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Tokenizer computes the tokens of texts. It is safe for concurrent use.
type Tokenizer struct {
	tables  *tables
	model   *model
	norm    []normalizer
	pre     preTokenizer
	added   addedTokens
	post    post
	decoder []decoder
	ids     map[string]uint32 // the model's vocabulary as the file spells it
	names   []string          // the same by id
	safe    map[uint32]bool   // tokens behind which a text may be cut, see Cut
	notices []string
	scratch sync.Pool
}

// Load reads a tokenizer.json as the Rust and Python library tokenizers writes it. A construct that is not computed here is
// an error that wraps ErrUnsupported and names it.
func Load(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("cannot read tokenizer.json: %w", err)
	}
	if f.Version != "" && f.Version != "1.0" {
		return nil, unsupported("version " + f.Version + " of tokenizer.json")
	}
	if absent(f.Model) {
		return nil, errors.New("cannot read tokenizer.json: it has no model")
	}
	t, err := newTokenizer(&f)
	if err != nil {
		return nil, fmt.Errorf("cannot load the tokenizer: %w", err)
	}
	return t, nil
}

func newTokenizer(f *file) (*Tokenizer, error) {
	chars, err := charTables()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{tables: chars}
	t.scratch.New = func() any { return new(scratch) }
	if t.norm, err = chars.newNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if t.pre, err = chars.newPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.checkFirst(); err != nil {
		return nil, err
	}
	if t.model, t.ids, err = newModel(f.Model, t.pre.bytes); err != nil {
		return nil, err
	}
	for _, token := range f.AddedTokens {
		if err := checkID(token.Content, token.ID); err != nil {
			return nil, err
		}
	}
	t.added = newAddedTokens(f.AddedTokens, t.ids, func(s string) string {
		return strings.Clone(t.normalize(new(scratch), s))
	})
	if t.post, err = newPost(f.PostProcessor); err != nil {
		return nil, err
	}
	if t.decoder, err = t.newDecoder(f.Decoder); err != nil {
		return nil, err
	}
	t.notices = t.added.notices
	// transformers sets both anew for each call, to off where the caller says nothing.
	for name, part := range map[string]json.RawMessage{"truncation": f.Truncation, "padding": f.Padding} {
		if !absent(part) {
			t.notices = append(t.notices, "the file's "+name+" is not applied, as engines switch it off")
		}
	}
	t.finish()
	return t, nil
}

// checkFirst refuses the one case in which the library's Metaspace looks at offsets that are not computed here.
func (t *Tokenizer) checkFirst() error {
	for _, s := range t.pre.steps {
		if s.kind != stepMeta || s.scheme != first {
			continue
		}
		for _, n := range t.norm {
			if _, ok := n.(prepend); ok {
				return unsupported("prepend_scheme first after the normalizer Prepend")
			}
		}
	}
	return nil
}

// finish makes the tables that are read from several parts.
func (t *Tokenizer) finish() {
	t.names = make([]string, len(t.model.vocab.off)-1)
	for name, id := range t.ids {
		t.names[id] = name
	}
	t.safe = t.safeEnds()
}

// Notices say what the file asks for that is not done, or done in another way than the file says. They are for a log.
func (t *Tokenizer) Notices() []string { return t.notices }

// ID is the id of a token as the file spells it, added tokens first.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	if id, ok := t.added.ids[token]; ok {
		return id, true
	}
	id, ok := t.ids[token]
	return id, ok
}

// Size is the number of distinct tokens: those of the model, and the added ones that it lacks.
func (t *Tokenizer) Size() int {
	n := len(t.ids)
	for token := range t.added.ids {
		if _, ok := t.ids[token]; !ok {
			n++
		}
	}
	return n
}

// Special are the ids that the post-processor puts before and after a text. They must not be changed.
func (t *Tokenizer) Special() (before, after []uint32) { return t.post.before, t.post.after }

// valid is s as Python would have it from bytes with errors="replace": each longest part of a character that breaks off
// becomes U+FFFD, and so does each other byte that is not UTF-8. An engine gets its text from JSON, which has been
// through the same.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string(appendValid(make([]byte, 0, len(s)+16), s))
}
