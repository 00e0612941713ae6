package tokenizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	maps.Copy(out, fields)
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
	maps.Copy(file, fields)
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
		maps.Copy(all[i], fields)
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
	if ids, err := tok.Append(nil, []byte("ab a")); err != nil || len(ids) != 3 {
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
	"markers of markers": {
		preTokenizers(slices.Concat([]object{split("[ab▁x]")}, slices.Repeat([]object{metaspace("b"), split("[ab▁x]"), metaspace("a"), split("[ab▁x]")}, 7))...),
		strings.Repeat("x", 1000),
	},
	"nested repetitions":          {preTokenizers(split("(?:(?:(?:a|b)+)+)+c")), strings.Repeat("ab", 10_000)},
	"repetitions in alternatives": {preTokenizers(split("(?:a|a|a|a|aa|ab)+c")), strings.Repeat("ab", 10_000)},
	"look-ahead to the end":       {preTokenizers(split("a(?=[ab]*c)")), strings.Repeat("ab", 10_000)},
	"look-ahead in look-ahead":    {preTokenizers(split("a(?=(?:[ab](?=(?:[ab](?=[ab]*c))*))*)c")), strings.Repeat("ab", 3_000)},
	"copies":                      {preTokenizers(split("(?:a{1000}){15}c")), strings.Repeat("a", 60_000)},
	"an atomic group":             {preTokenizers(split("(?>[ab]+)c")), strings.Repeat("ab", 10_000)},
	"a pattern of a normalizer":   {normalizers(replaceRegex("(?:(?:a|b)+)+c", "x")), strings.Repeat("ab", 10_000)},
	"states without end":          {preTokenizers(split("(?:a|b)+c")), strings.Repeat("ab", 1_200_000)},
}
