//go:build !race || soak

package tokenizer_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// TestBombsInFiles: a file beyond what real ones have is refused before it takes memory or time.
func TestBombsInFiles(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	name := func(i int) string { return "<" + strconv.Itoa(i) + ">" }
	for what, fields := range map[string]object{
		"merges without end":            {"model": model(object{"a": 0}, strings.Repeat(`["a","a"],`, 1_500_000))},
		"nested normalizers":            {"normalizer": nested(4000, "normalizers")},
		"nested pre-tokenizers":         {"pre_tokenizer": nested(4000, "pretokenizers")},
		"nested post-processors":        {"post_processor": nested(4000, "processors")},
		"many normalizers":              normalizers(times(40, part("NFC", nil))...),
		"many pre-tokenizers":           preTokenizers(times(40, split("a"))...),
		"many of both":                  {"normalizer": normalizers(times(20, part("NFC", nil))...)["normalizer"], "pre_tokenizer": preTokenizers(times(20, split("a"))...)["pre_tokenizer"]},
		"parts without number":          normalizers(times(20_000, part("NFC", nil))...),
		"a pattern of brackets":         preTokenizers(split(strings.Repeat("(", 300_000) + strings.Repeat(")", 300_000))),
		"a pattern of millions":         preTokenizers(split(strings.Repeat("(", 4_000_000))), // deeper than a stack
		"a pattern of classes":          preTokenizers(split(strings.Repeat("[", 300_000))),
		"a long replacement":            normalizers(replace("a", strings.Repeat("a", 2<<20))),
		"a long token":                  {"model": model(object{"a": 0, long: 1}, "")},
		"a long added token":            addedTokens(1, func(int) string { return long }, nil),
		"many added tokens":             addedTokens(200_000, name, nil),
		"added tokens of many bytes":    addedTokens(10_000, func(i int) string { return name(i) + long[:400] }, nil),
		"an added token that grows":     {"added_tokens": addedTokens(1, func(int) string { return "aaa" }, object{"normalized": true})["added_tokens"], "normalizer": normalizers(times(10, replace("a", strings.Repeat("a", 100)))...)["normalizer"]},
		"many tokens around a text":     {"post_processor": part("TemplateProcessing", object{"single": append(times(1000, object{"SpecialToken": object{"id": "a"}}), object{"Sequence": object{"id": "A"}}), "special_tokens": object{"a": object{"ids": []int{0}}}})},
		"many ids around a text":        {"post_processor": part("TemplateProcessing", object{"single": []object{{"SpecialToken": object{"id": "a"}}, {"Sequence": object{"id": "A"}}}, "special_tokens": object{"a": object{"ids": make([]int, 1000)}}})},
		"merges that meet in one place": colliding(),
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := tokenizer.Load(tokenizerFile(t, fields)); !errors.Is(err, tokenizer.ErrLimit) {
				t.Errorf("the error is %.300v, want ErrLimit", err)
			}
		})
	}
}

// TestBombsInTexts: a text beyond the budget of its length has no ids, and others have theirs.
func TestBombsInTexts(t *testing.T) {
	for what, bomb := range bombs {
		t.Run(what, func(t *testing.T) {
			tok, err := tokenizer.Load(tokenizerFile(t, bomb.fields))
			if err != nil {
				t.Fatal(err)
			}
			known := []uint32{7}
			if ids, err := tok.AppendSpecial(known, []byte(bomb.text)); !errors.Is(err, tokenizer.ErrLimit) || !slices.Equal(ids, known) {
				t.Errorf("%d ids and %v, want those of before and ErrLimit", len(ids), err)
			}
			if ids, err := tok.Append(nil, []byte("")); err != nil || len(ids) > 0 {
				t.Errorf("the next text has %v, %v", ids, err)
			}
		})
	}
}

// TestTextsThatGrow: the largest growth of real normalizers, of any length, is no bomb.
func TestTextsThatGrow(t *testing.T) {
	tok, err := tokenizer.Load(tokenizerFile(t, normalizers(part("NFKC", nil), part("Lowercase", nil), part("Prepend", object{"prepend": "▁"}), replace(" ", "▁"))))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 100, 100_000} {
		for _, text := range []string{"\ufdfa", "\u0390", "ſ", "\u1100\u1161", " ", "\u0130"} {
			if _, err := tok.Append(nil, []byte(strings.Repeat(text, n))); err != nil {
				t.Errorf("%d times %q: %v", n, text, err)
			}
		}
	}
}

// TestSpacesAroundTokens: tokens that take the spaces on both sides walk them once. Of this text
// they took hours.
func TestSpacesAroundTokens(t *testing.T) {
	text := strings.Repeat(" ", 4<<20)
	for _, side := range []string{"lstrip", "rstrip"} {
		tok, err := tokenizer.Load(tokenizerFile(t, addedTokens(1, func(int) string { return " " }, object{side: true})))
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := tok.Append(nil, []byte(text)); err != nil || len(ids) != len(text) {
			t.Errorf("%s: %d tokens and %v, want one for each space", side, len(ids), err)
		}
	}
}

// TestLongPieces has pieces of 64 kB, for which a quadratic merge would take minutes in all.
func TestLongPieces(t *testing.T) {
	const n = 1 << 16
	for _, name := range []string{"llama3", "o200k", "deepseek", "gpt2", "llama2", "gemma", "missing-fused"} {
		tok := loadVector(t, name)
		for _, s := range []string{"a", " ", "A", "\n", "\u0301", "the quick", "0", "中", "!", "\r\n ", "\u1100"} {
			text := strings.Repeat(s, n/len(s))
			ids := tok.MustAppend(nil, text)
			if len(ids) == 0 {
				t.Errorf("%s: %d bytes of %q have no tokens", name, len(text), s)
			}
		}
	}
}
