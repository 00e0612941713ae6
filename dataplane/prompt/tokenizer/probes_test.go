package tokenizer_test

import (
	"slices"
	"testing"
)

func TestProbesHoldEachAddedToken(t *testing.T) {
	tok := loadVector(t, "added")
	probes := tok.Probes()
	for _, name := range []string{"<|im_end|>", "word", "NewToken"} {
		id, ok := tok.ID(name)
		if !ok || !slices.Contains(probes, name) || !slices.Contains(tok.MustAppend(nil, "a "+name+" b"), id) {
			t.Errorf("no probe for the added token %s", name)
		}
	}
	// They tell apart tokenizers that differ in one part.
	for _, pair := range [][2]string{
		{"llama3", "qwen"},
		{"qwen", "qwen35"},
		{"o200k", "nemo"},
		{"gpt2", "starcoder"},
		{"llama2", "metaspace-always-false"},
		{"metaspace-first-true", "metaspace-never-true"},
		{"nfd", "nfkd"},
	} {
		a, b := loadVector(t, pair[0]), loadVector(t, pair[1])
		if !slices.ContainsFunc(a.Probes(), func(s string) bool { return !slices.Equal(a.MustAppend(nil, s), b.MustAppend(nil, s)) }) {
			t.Errorf("no probe tells %s from %s", pair[0], pair[1])
		}
	}
}
