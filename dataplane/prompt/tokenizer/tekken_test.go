package tokenizer_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// tekkenFile is a tekken.json with the 256 bytes, the given further tokens, and ten control tokens before them.
func tekkenFile(t testing.TB, pattern string, more ...string) []byte {
	t.Helper()
	type entry struct {
		Rank  int    `json:"rank"`
		Bytes string `json:"token_bytes"`
	}
	var vocab []entry
	add := func(b []byte) { vocab = append(vocab, entry{len(vocab), base64.StdEncoding.EncodeToString(b)}) }
	for b := range 256 {
		add([]byte{byte(b)})
	}
	for _, s := range more {
		add([]byte(s))
	}
	data, err := json.Marshal(map[string]any{
		"config": map[string]any{
			"pattern": pattern, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + 10,
			"default_num_special_tokens": 10, "version": "v3",
		},
		"vocab": vocab,
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoadTekken(t *testing.T) {
	tok, err := tokenizer.LoadTekken(tekkenFile(t, `\p{L}+|[^\p{L}]+`, "aa", "ab", "aaa", "é", "zab"))
	if err != nil {
		t.Fatal(err)
	}
	const a, b, z, aa, ab, aaa, acute = 'a' + 10, 'b' + 10, 'z' + 10, 266, 267, 268, 269
	tests := []struct {
		text string
		want []uint32
	}{
		{"aaa", []uint32{aaa}},            // a token as a whole
		{"aaaa", []uint32{aa, aa}},        // of ranks aa is the lowest, so it goes before aaa
		{"aaab", []uint32{aa, ab}},        // ab comes before aaa too
		{"aab", []uint32{aa, b}},          // and aa before ab
		{"é1", []uint32{acute, '1' + 10}}, // two bytes
		{"zab", []uint32{270}},
		{"zabz", []uint32{270, z}},
		{"<s>ab", []uint32{'<' + 10, 's' + 10, '>' + 10, ab}}, // control tokens are not found in text
	}
	for _, tt := range tests {
		if got := tok.Append(nil, tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("Append(%q) = %v, want %v", tt.text, got, tt.want)
		}
		if got := tok.Decode(tt.want, false); got != tt.text {
			t.Errorf("Decode(%v) = %q, want %q", tt.want, got, tt.text)
		}
	}
	if got := tok.AppendSpecial(nil, "b"); !slices.Equal(got, []uint32{1, b}) {
		t.Errorf("AppendSpecial(b) = %v, want <s> and b", got)
	}
	if got := tok.Decode([]uint32{1, b, 2}, true); got != "b" {
		t.Errorf("Decode without special tokens = %q, want b", got)
	}
	if cut := tok.Cut("a</s>b"); cut != 0 {
		t.Errorf("Cut = %d, want 0 where no token is found in text", cut)
	}
}

func TestLoadTekkenRefuses(t *testing.T) {
	if _, err := tokenizer.LoadTekken(tekkenFile(t, `\bx`)); !errors.Is(err, tokenizer.ErrUnsupported) {
		t.Errorf("a pattern with \\b: %v, want ErrUnsupported", err)
	}
	if _, err := tokenizer.LoadTekken(tekkenFile(t, `x+`, "aa", "aa")); err == nil {
		t.Error("a token that is there twice is taken")
	}
	if _, err := tokenizer.LoadTekken([]byte(`{"config":{"default_vocab_size":5}}`)); err == nil {
		t.Error("a file without tokens is taken")
	}
}
