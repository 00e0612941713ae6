package tokenizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// object is JSON that is being made.
type object = map[string]any

// part is one part of a tokenizer.json.
func part(kind string, fields object) object {
	out := object{"type": kind}
	for name, value := range fields {
		out[name] = value
	}
	return out
}

func replace(what, by string) object {
	return part("Replace", object{"pattern": object{"String": what}, "content": by})
}

func replaceRegex(what, by string) object {
	return part("Replace", object{"pattern": object{"Regex": what}, "content": by})
}

func split(pattern string) object {
	return part("Split", object{"pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

func metaspace(marker string) object {
	return part("Metaspace", object{"replacement": marker, "prepend_scheme": "always", "split": false})
}

// normalizers and preTokenizers are sequences.
func normalizers(all ...object) object {
	return object{"normalizer": part("Sequence", object{"normalizers": all})}
}

func preTokenizers(all ...object) object {
	return object{"pre_tokenizer": part("Sequence", object{"pretokenizers": all})}
}

// times is n copies of a part.
func times(n int, p object) []object { return slices.Repeat([]object{p}, n) }

// nested is a sequence in a sequence, and so on.
func nested(n int, field string) json.RawMessage {
	return json.RawMessage(strings.Repeat(`{"type":"Sequence","`+field+`":[`, n) + `{"type":"NFC"}` + strings.Repeat("]}", n))
}

// tokenizerFile is a tokenizer.json of the letters a and b, with further fields.
func tokenizerFile(t testing.TB, fields object) []byte {
	t.Helper()
	file := object{"version": "1.0", "model": model(object{"a": 0, "b": 1}, "")}
	for name, value := range fields {
		file[name] = value
	}
	raw, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func model(vocab object, merges string) object {
	return object{"type": "BPE", "vocab": vocab, "merges": json.RawMessage("[" + strings.TrimSuffix(merges, ",") + "]")}
}

func addedTokens(n int, content func(i int) string, fields object) object {
	all := make([]object, n)
	for i := range all {
		all[i] = object{"id": 10 + i, "content": content(i)}
		for name, value := range fields {
			all[i][name] = value
		}
	}
	return object{"added_tokens": all}
}

// colliding is a model in which the pairs of all merges meet in one place of the table of merges:
// the multiplier of its hash is 2^64 over the golden ratio.
func colliding() object {
	const rules, bits = 4096, 13
	vocab, right, rest := object{"l": 0}, []int{}, []int{}
	for id := 1; id < 1<<22; id++ {
		if uint64(id)*0x9E3779B97F4A7C15>>(64-bits) < 8 && len(right) < rules {
			right = append(right, id)
		} else if len(rest) < rules {
			rest = append(rest, id)
		}
	}
	var merges strings.Builder
	for i, id := range right {
		name := "r" + strconv.Itoa(i)
		vocab[name], vocab["l"+name] = id, rest[i]
		fmt.Fprintf(&merges, `"l %s",`, name)
	}
	return object{"model": model(vocab, merges.String())}
}

// TestBombsInFiles: a file beyond what real ones have is refused before it takes memory or time.
func TestBombsInFiles(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	name := func(i int) string { return "<" + strconv.Itoa(i) + ">" }
	for what, fields := range map[string]object{
		"merges without end":            {"model": model(object{"a": 0}, strings.Repeat(`["a","a"],`, 1_500_000))},
		"nested normalizers":            {"normalizer": nested(4000, "normalizers")},
		"nested pre-tokenizers":         {"pre_tokenizer": nested(4000, "pretokenizers")},
		"nested post-processors":        {"post_processor": nested(4000, "processors")},
		"nested decoders":               {"decoder": nested(4000, "decoders")},
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

// TestRepetitionsOfNothing: such patterns are unsupported, as before.
func TestRepetitionsOfNothing(t *testing.T) {
	for _, pattern := range []string{"(?:a*)*", "x*", "(?:)", "(?=a)", "a{0}", "(?:a{0}){0,1000}", "(?:a?)+", "$"} {
		for _, fields := range []object{normalizers(replaceRegex(pattern, "x")), preTokenizers(split(pattern))} {
			if _, err := tokenizer.Load(tokenizerFile(t, fields)); !errors.Is(err, tokenizer.ErrUnsupported) {
				t.Errorf("%s: the error is %v, want ErrUnsupported", pattern, err)
			}
		}
	}
	empty := func(int) string { return "" }
	tok, err := tokenizer.Load(tokenizerFile(t, addedTokens(3, empty, object{"special": true, "normalized": true, "lstrip": true})))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Append(nil, "ab a"); err != nil || len(ids) != 3 {
		t.Errorf("empty special tokens make %v, %v of three letters", ids, err)
	}
}

// bombs are tokenizers that multiply a text or try a pattern without end.
var bombs = map[string]struct {
	fields object
	text   string
}{
	"replacements of replacements": {normalizers(times(10, replace("a", strings.Repeat("a", 100)))...), strings.Repeat("a", 60_000)},
	"doubling":                     {normalizers(times(30, replace("a", "aa"))...), "a"},
	"one replacement":              {normalizers(replace("a", strings.Repeat("a", 10_000))), strings.Repeat("a", 100_000)},
	"a replaced pattern":           {normalizers(times(10, replaceRegex("[ab]", strings.Repeat("b", 100)))...), strings.Repeat("a", 60_000)},
	"a prefix of each segment": {object{
		"added_tokens": addedTokens(1, func(int) string { return "<" }, nil)["added_tokens"],
		"normalizer":   part("Prepend", object{"prepend": strings.Repeat("a", 500_000)}),
	}, strings.Repeat("<a", 30_000)},
	"compatible forms": {normalizers(slices.Concat(times(1, part("NFKC", nil)), times(10, replace("\u0644", "\ufdfa")), times(1, part("NFKC", nil)))...), strings.Repeat("\ufdfa", 20_000)},
	"markers of markers": {preTokenizers(slices.Concat([]object{split("[ab▁x]")}, slices.Repeat([]object{metaspace("b"), split("[ab▁x]"), metaspace("a"), split("[ab▁x]")}, 7))...),
		strings.Repeat("x", 1000)},
	"nested repetitions":          {preTokenizers(split("(?:(?:(?:a|b)+)+)+c")), strings.Repeat("ab", 10_000)},
	"repetitions in alternatives": {preTokenizers(split("(?:a|a|a|a|aa|ab)+c")), strings.Repeat("ab", 10_000)},
	"look-ahead to the end":       {preTokenizers(split("a(?=[ab]*c)")), strings.Repeat("ab", 10_000)},
	"look-ahead in look-ahead":    {preTokenizers(split("a(?=(?:[ab](?=(?:[ab](?=[ab]*c))*))*)c")), strings.Repeat("ab", 3_000)},
	"copies":                      {preTokenizers(split("(?:a{1000}){15}c")), strings.Repeat("a", 60_000)},
	"an atomic group":             {preTokenizers(split("(?>[ab]+)c")), strings.Repeat("ab", 10_000)},
	"a pattern of a normalizer":   {normalizers(replaceRegex("(?:(?:a|b)+)+c", "x")), strings.Repeat("ab", 10_000)},
	"states without end":          {preTokenizers(split("(?:a|b)+c")), strings.Repeat("ab", 1_200_000)},
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
			if ids, err := tok.AppendSpecial(known, bomb.text); !errors.Is(err, tokenizer.ErrLimit) || !slices.Equal(ids, known) {
				t.Errorf("%d ids and %v, want those of before and ErrLimit", len(ids), err)
			}
			if ids, err := tok.Append(nil, ""); err != nil || len(ids) > 0 {
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
			if _, err := tok.Append(nil, strings.Repeat(text, n)); err != nil {
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
		if ids, err := tok.Append(nil, text); err != nil || len(ids) != len(text) {
			t.Errorf("%s: %d tokens and %v, want one for each space", side, len(ids), err)
		}
	}
}
