package tokenizer_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// small is a tokenizer file with one part replaced.
func small(t testing.TB, part, value string) []byte {
	t.Helper()
	file := map[string]json.RawMessage{
		"version": json.RawMessage(`"1.0"`),
		"model":   json.RawMessage(`{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":["a b"]}`),
	}
	if part != "" {
		file[part] = json.RawMessage(value)
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoadNamesWhatIsUnsupported(t *testing.T) {
	tests := []struct{ part, value, names string }{
		{"version", `"2.0"`, "version 2.0"},
		{"model", `{"type":"Unigram","vocab":[["a",0.5]]}`, "the model Unigram"},
		{"model", `{"type":"WordPiece","vocab":{"a":0}}`, "the model WordPiece"},
		{"model", `{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}`, "dropout"},
		{"model", `{"type":"BPE","continuing_subword_prefix":"##","vocab":{"a":0},"merges":[]}`, "continuing_subword_prefix"},
		{"model", `{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]}`, "end_of_word_suffix"},
		{"model", `{"type":"BPE","unk_token":"a","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`, "a merge of the unk token"},
		{"normalizer", `{"type":"Precompiled","precompiled_charsmap":""}`, "the normalizer Precompiled"},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"BertNormalizer"}]}`, "the normalizer BertNormalizer"},
		{"pre_tokenizer", `{"type":"UnicodeScripts"}`, "the pre-tokenizer UnicodeScripts"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\bx"},"behavior":"Isolated","invert":false}`, `the escape \b`},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated","invert":false}`, `the escape \1`},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"a*"},"behavior":"Isolated","invert":false}`, "may match nothing"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\p{Klingon}"},"behavior":"Isolated","invert":false}`, `\p{Klingon}`},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(?<=ab)c"},"behavior":"Isolated","invert":false}`, "look-behind"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"a(?i)b|c"},"behavior":"Isolated","invert":false}`, "the group (?i)"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(?i:ss)"},"behavior":"Isolated","invert":false}`, "(?i)"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"String":"a"},"behavior":"Shaken","invert":false}`, "Shaken"},
		{"post_processor", `{"type":"Odd"}`, "the post-processor Odd"},
		{"post_processor", `{"type":"TemplateProcessing","single":[],"special_tokens":{}}`, "without the sequence A"},
	}
	for _, tt := range tests {
		_, err := tokenizer.Load(small(t, tt.part, tt.value))
		if !errors.Is(err, tokenizer.ErrUnsupported) || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Load with %s %s = %v, want ErrUnsupported that names %q", tt.part, tt.value, err, tt.names)
		}
	}
}

func TestLoadRefusesBrokenFiles(t *testing.T) {
	tests := []struct{ part, value string }{
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":["a b"]}`},     // b and ab are missing
		{"model", `{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a"]}`}, // not a pair
		// An id that would take gigabytes.
		{"model", `{"type":"BPE","vocab":{"a":9999999},"merges":[]}`},
		// An option of a later version.
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"new":1}`},
		{"model", `{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}`}, // two tokens with one id
		{"model", `{"type":"BPE","merges":[]}`},
		{"model", `null`},
		{"pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"new":1}`},
		{"added_tokens", `[{"id":4000000000,"content":"x"}]`},
	}
	for _, tt := range tests {
		if _, err := tokenizer.Load(small(t, tt.part, tt.value)); err == nil {
			t.Errorf("Load with %s %s succeeds", tt.part, tt.value)
		}
	}
	if _, err := tokenizer.Load([]byte("{")); err == nil {
		t.Error("Load of half a file succeeds")
	}
}

func TestNotices(t *testing.T) {
	tok, err := tokenizer.Load(small(t, "truncation", `{"max_length":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := tok.Notices(); len(n) != 1 || !strings.Contains(n[0], "truncation") {
		t.Errorf("Notices() = %q, want one about truncation", n)
	}
	if got := tok.MustAppend(nil, "abab"); !slices.Equal(got, []uint32{2, 2}) {
		t.Errorf("Append = %v, want [2 2]", got)
	}
	// The library chooses ids for added tokens outside of its vocabulary.
	tok, err = tokenizer.Load(small(t, "added_tokens", `[{"id":77,"content":"<x>","special":true}]`))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.MustAppend(nil, "a<x>"); !slices.Equal(got, []uint32{0, 4}) || len(tok.Notices()) != 1 {
		t.Errorf("Append = %v with notices %q, want [0 4] and one notice", got, tok.Notices())
	}
}

func TestID(t *testing.T) {
	tok := loadVector(t, "llama3")
	id, ok := tok.ID("<|im_end|>")
	if got := tok.MustAppend(nil, "<|im_end|>"); !ok || !slices.Equal(got, []uint32{id}) {
		t.Errorf("ID(<|im_end|>) = %d, %t; it encodes to %v", id, ok, got)
	}
	if _, ok := tok.ID("no such token"); ok {
		t.Error("ID finds what is not there")
	}
}

func TestBrokenUTF8(t *testing.T) {
	if ids, err := loadVector(t, "llama3").Append([]uint32{7}, []byte("a\xffb")); err == nil || !slices.Equal(ids, []uint32{7}) {
		t.Errorf("Append of broken UTF-8 = %v, %v, want the ids before and an error", ids, err)
	}
}

// TestText: what people read of tokens, byte-level and of characters.
func TestText(t *testing.T) {
	const text = "größer 敏捷 <|im_end|>"
	for _, name := range []string{"llama3", "gemma"} {
		tok := loadVector(t, name)
		if got := tok.Text(tok.MustAppend(nil, text)); got != text {
			t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
	tok := loadVector(t, "llama3")
	if got := tok.Text(tok.MustAppend(nil, "敏")[:1]); got != "\uFFFD" {
		t.Errorf("part of a character reads %q", got)
	}
}

func TestWhitespaceIsOneSet(t *testing.T) {
	if !tokenizer.Whitespace() {
		t.Error("unicode.txt has other characters for \\s, White_Space and what rstrip strips; the code takes them for one set")
	}
}

func TestKnownPatternsAreKnown(t *testing.T) {
	for _, pattern := range tokenizer.KnownPatterns() {
		if !tokenizer.IsKnown(pattern) {
			t.Errorf("%s has no scanner by hand", pattern)
		}
	}
}

// TestConcurrentUse encodes from many goroutines with a cache that has room for next to nothing, so
// that readers and writers meet in its slots.
func TestConcurrentUse(t *testing.T) {
	for _, name := range []string{"llama3", "gemma"} {
		v := readVector(t, "testdata/vectors/"+name+".json")
		tok, err := tokenizer.Load(v.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		tok.ShrinkCache()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					for _, c := range v.Cases {
						if got := tok.MustAppend(nil, c.text); !slices.Equal(got, c.ids) {
							t.Errorf("%s: Append(%q) = %v, want %v", v.name, c.text, got, c.ids)
						}
					}
				}
			})
		}
		wg.Wait()
	}
}
