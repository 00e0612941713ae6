package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Load reads a tokenizer.json as the Rust and Python library tokenizers writes it. A construct that
// is not computed here is an error that wraps ErrUnsupported and names it.
func Load(data []byte) (*Tokenizer, error) {
	if err := checkSize(data); err != nil {
		return nil, fmt.Errorf("cannot read tokenizer.json: %w", err)
	}
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
	if err := f.checkParts(); err != nil {
		return nil, fmt.Errorf("cannot load the tokenizer: %w", err)
	}
	t, err := newTokenizer(&f)
	if err != nil {
		return nil, fmt.Errorf("cannot load the tokenizer: %w", err)
	}
	return t, nil
}

func newTokenizer(f *file) (*Tokenizer, error) {
	chars, err := loadTables()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{encoder: encoder{tables: chars}}
	t.scratch.New = func() any { return new(scratch) }
	if t.norm, err = newNormalizer(chars, f.Normalizer); err != nil {
		return nil, err
	}
	if t.pre, err = newPreTokenizer(chars, f.PreTokenizer); err != nil {
		return nil, err
	}
	if n := len(t.norm) + len(t.pre.steps); n > maxParts {
		return nil, overLimit("%d normalizers and pre-tokenizers", n)
	}
	if err := checkMetaspaceFirst(t); err != nil {
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
	over := false
	t.added = newAddedTokens(f.AddedTokens, t.ids, func(s string) string {
		w := &scratch{budget: newBudget(0)}
		s = strings.Clone(t.normalize(w, s))
		over = over || w.over || len(s) > maxToken
		return s
	})
	if over {
		return nil, overLimit("an added token that normalizers make long")
	}
	if t.post, err = newPostProcessor(f.PostProcessor); err != nil {
		return nil, err
	}
	t.notices = t.added.notices
	// transformers sets both for each call, to off by default.
	for name, part := range map[string]json.RawMessage{"truncation": f.Truncation, "padding": f.Padding} {
		if !absent(part) {
			t.notices = append(t.notices, "the file's "+name+" is not applied, as engines switch it off")
		}
	}
	t.safe = t.safeEnds()
	return t, nil
}

// checkMetaspaceFirst refuses the one case in which the library's Metaspace needs offsets that are
// not computed here.
func checkMetaspaceFirst(t *Tokenizer) error {
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
