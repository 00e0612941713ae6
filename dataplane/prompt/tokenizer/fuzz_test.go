package tokenizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// seeds are texts that hurt pre-tokenizers.
var seeds = []string{
	"", "a", "Hello, world! It's 12345 o'clock; WE'LL see.\r\n\r\n  indented\tcode()\n", "'ſ'S'Ll 'RE x'vE", " \u2003\u00a0 x  \n\n y ",
	"ABcDEf ªʰǅǆ É\u0301e\u0301\u0323", "中文字符がぎ カ゛각가", "👩‍👩‍👧❤️\u200d", "\x00\x01\u0085\u2028", "<|im_start|>user\nhi<|im_end|>\n",
	"1234567890½Ⅷ٣", "////\r\n/\n !!?\n", "ЁлкаÀÉ", strings.Repeat("a", 300), strings.Repeat(" ", 100), "\xff\xfe\xed\xa0\x80\xf0\x9f", "▁▁Ġ<0xE2>",
}

// FuzzScanners compares each hand-written scanner with its regular expression.
func FuzzScanners(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		for _, pattern := range tokenizer.KnownPatterns() {
			byHand, byRegex, err := tokenizer.Scan(pattern, text)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(byHand, byRegex) {
				t.Errorf("%q by %s: by hand %v, by regular expression %v", text, pattern, byHand, byRegex)
			}
		}
	})
}

// FuzzMerge holds the two ways of merging to the definition.
func FuzzMerge(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	var toks []*tokenizer.Tokenizer
	for _, name := range []string{"llama3", "missing-fused", "missing-dropped", "llama2", "partial-fallback"} {
		toks = append(toks, loadVector(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if len(text) > 2000 { // the definition takes the square
			return
		}
		for i, tok := range toks {
			want := tok.NaiveMerge(text)
			for _, long := range []bool{false, true} {
				if got := tok.MergeBytes(text, long); !slices.Equal(got, want) {
					t.Errorf("tokenizer %d, long %t: %q becomes %v, want %v", i, long, text, got, want)
				}
			}
		}
	})
}

// FuzzRoundTrip decodes encoded texts, and encodes with a cache in which all pieces collide.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	var toks, small []*tokenizer.Tokenizer
	for _, name := range []string{"llama3", "o200k", "nemo", "deepseek", "starcoder", "falcon"} {
		toks = append(toks, loadVector(f, name))
		tok := loadVector(f, name)
		tok.ShrinkCache()
		small = append(small, tok)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		for i, tok := range toks {
			ids := tok.MustAppend(nil, text)
			if got := tok.Text(ids); got != text {
				t.Errorf("tokenizer %d: %q comes back as %q", i, text, got)
			}
			for range 2 {
				if again := small[i].MustAppend(nil, text); !slices.Equal(again, ids) {
					t.Errorf("tokenizer %d, small cache: %q becomes %v, want %v", i, text, again, ids)
				}
			}
		}
	})
}

// FuzzCut holds the promise of CutAfter and of the cuts within SentencePiece's paragraphs.
func FuzzCut(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, "and\n more<|im_end|>")
		f.Add(s+"<|im_end|>", s)
	}
	f.Add("word<s> a", "b mask")
	var toks []*tokenizer.Tokenizer
	for _, name := range []string{"llama3", "qwen", "deepseek", "added", "added-plain", "llama2", "metaspace-first-true"} {
		toks = append(toks, loadVector(f, name))
	}
	whole := loadVector(f, "llama2")
	f.Fuzz(func(t *testing.T, text, more string) {
		text, more = strings.ToValidUTF8(text, "\uFFFD"), strings.ToValidUTF8(more, "\uFFFD")
		for i, tok := range toks {
			cut := 0
			for more := 1; more > 0; cut += more { // the last one
				more = tok.CutAfter([]byte(text[cut:]), 1)
			}
			want := tok.MustAppend(nil, text+more)
			// The text before the cut is encoded alone, the text behind it with its continuation.
			got := tok.MustAppendRest(tok.MustAppend(nil, text[:cut]), text[cut:]+more)
			if cut == 0 {
				got = tok.MustAppend(nil, text+more)
			}
			if !slices.Equal(got, want) {
				t.Errorf("tokenizer %d: %q cut at %d and then %q is %v, want %v", i, text, cut, more, got, want)
			}
		}
		if got, want := whole.AppendPieces(text), whole.AppendWhole(text); !slices.Equal(got, want) {
			t.Errorf("%q in pieces is %v, as a whole %v", text, got, want)
		}
	})
}

// FuzzNFC compares the NFC that skips settled text with the one that does not.
func FuzzNFC(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Add("e\u0301\u0323\u0323\u0344\u1100\u1161\u11a8\u11a8\uac00\u11a8\u0958\u2126\u212b")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		if got, want := tokenizer.Normalize("NFC", text), tokenizer.NormalizeWhole(text); got != want {
			t.Errorf("NFC of %+q is %+q, want %+q", text, got, want)
		}
	})
}

// FuzzLoad loads broken files, which must be refused or work.
func FuzzLoad(f *testing.F) {
	for part, value := range map[string]string{
		"normalizer":     `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"x"},{"type":"Replace","pattern":{"String":" "},"content":"_"}]}`,
		"pre_tokenizer":  `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"Split","pattern":{"Regex":"a+|\\s"},"behavior":"Removed","invert":false},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}]}`,
		"post_processor": `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{"id":"A"}}],"special_tokens":{"a":{"id":"a","ids":[0]}}}`,
		"added_tokens":   `[{"id":3,"content":"b","lstrip":true,"single_word":true},{"id":4,"content":"xx","normalized":true,"rstrip":true}]`,
		"model":          `{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true,"vocab":{"<unk>":0,"<0x41>":1,"▁":2,"b":3,"▁b":4},"merges":[["▁","b"]]}`,
	} {
		f.Add(small(f, part, value))
	}
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := tokenizer.Load(data)
		if err != nil {
			return
		}
		for _, s := range seeds {
			s = strings.ToValidUTF8(s, "\uFFFD")
			ids := tok.MustAppend(nil, s)
			_ = tok.Text(ids)
			if again := tok.MustAppend(nil, s); !slices.Equal(again, ids) {
				t.Errorf("%q becomes %v and then %v", s, ids, again)
			}
		}
	})
}

// FuzzRegex compiles broken patterns, which must be refused or work.
func FuzzRegex(f *testing.F) {
	for _, pattern := range tokenizer.KnownPatterns() {
		f.Add(pattern, "It's 12 o'clock")
	}
	f.Add(`(?<!a)[^\s&&[a-z]]{2,3}+|(?i:x)?+y|\x{41}$`, "axA")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 60 || len(text) > 100 || tokenizer.CompileRegex(pattern) != nil {
			return
		}
		tokenizer.ScanRegex(t, pattern, strings.ToValidUTF8(text, "\uFFFD"))
	})
}
