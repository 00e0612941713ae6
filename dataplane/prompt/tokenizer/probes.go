package tokenizer

// Probes are texts by which an engine's tokenizer can be told from the one that its file describes: those on which
// pre-tokenizers, normalizers, byte fallback, prefixes and special tokens of known models differ. An engine that gives
// each of them the ids of Append has the same tokenizer as far as is known; one that does not must be asked for ids.
// They hold each added token too, among words and spaces.
func (t *Tokenizer) Probes() []string {
	out := []string{
		"Hello", " Hello", "  Hello world  ", "a\n b\n\n  c\r\n\td ", "It's WE'LL don'T 'ſ x's", "1 12 123 1234567 3.14 ½٣Ⅷ",
		"camelCase HTTPServer XMLHttp éÉcole ǅ ªb", "if (x >= 0) { return a[i++]; } // done\n\n\n", "中文字符,日本語のテキスト 한국어 ไทย हिन्दी",
		"e\u0301 \u00e9 a\u0323\u0301 \u212b \ufb01 \u1100\u1161", "😀👩\u200d👩\u200d👧❤\ufe0f\u200b\u00a0\u3000x", "▁a ▁ Ġb <0xE2> <unk> \x00\x07\x7f",
		"https://example.org/a_b-c?d=e&f=%20", "          x", "\t\t\ty", "...!!!???---///",
	}
	for _, e := range t.added.byID {
		out = append(out, e.Content, "a "+e.Content+" b", "x"+e.Content+"\n")
	}
	return out
}
