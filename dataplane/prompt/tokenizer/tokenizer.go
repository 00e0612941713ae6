package tokenizer

import "strings"

// Decode is the text of tokens, as the Python library's decode with the same skip_special_tokens.
// Ids that are no token are left out.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		s, ok := spellingOf(t, id)
		// The library looks the spelling up among the special tokens, so a token of the model that
		// reads like one is skipped too.
		if !ok || skipSpecial && t.added.special[s] {
			continue
		}
		tokens = append(tokens, s)
	}
	// A file without a decoder gets its tokens with spaces between, as in the library.
	if t.decoder == nil {
		return strings.Join(tokens, " ")
	}
	for _, d := range t.decoder {
		tokens = d.decode(tokens)
	}
	return strings.Join(tokens, "")
}

// Append adds the tokens of text to dst. Added tokens spelled in the text, such as <|im_end|>, are
// found, and nothing is put around the text. This is add_special_tokens=False of the Python
// library, as SGLang encodes a rendered chat. Bytes that are not UTF-8 count as U+FFFD, as with
// Python's errors="replace". The error is [ErrLimit]; dst is then returned as it was.
func (t *Tokenizer) Append(dst []uint32, text string) ([]uint32, error) {
	return t.append(dst, text, true)
}

// AppendBytes is Append for a text in bytes, which must not change meanwhile. They are not kept.
func (t *Tokenizer) AppendBytes(dst []uint32, text []byte) ([]uint32, error) {
	return t.append(dst, view(text), true)
}

// AppendSpecial is Append with the post-processor's tokens around the text, such as <s>:
// add_special_tokens=True.
func (t *Tokenizer) AppendSpecial(dst []uint32, text string) ([]uint32, error) {
	before := len(dst)
	dst, err := t.append(append(dst, t.post.before...), text, true)
	if err != nil {
		return dst[:before], err
	}
	return append(dst, t.post.after...), nil
}

// Tokenizer computes the tokens of texts. It is safe for concurrent use.
type Tokenizer struct {
	encoder
	post    postProcessor
	decoder []decoder
	ids     map[string]uint32 // the model's vocabulary as the file spells it
	names   []string          // the same by id
	safe    map[uint32]bool   // tokens behind which a text may be cut, see Cut
	notices []string
}

// Notices returns notes for a log: settings of the file that are not applied, or applied in another
// way.
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

// Special are the ids that the post-processor puts before and after a text. They must not be
// changed.
func (t *Tokenizer) Special() (before, after []uint32) { return t.post.before, t.post.after }

// Probes returns texts that distinguish tokenizers: pre-tokenizers, normalizers, byte fallback,
// prefixes and special tokens of known models differ on them. An engine that gives each of them the
// ids of Append has the same tokenizer as far as is known; any other engine must be asked for ids.
// They include each added token, among words and spaces.
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

// AppendRest is Append for the text behind a Cut.
func (t *Tokenizer) AppendRest(dst []uint32, rest string) ([]uint32, error) {
	return t.append(dst, rest, false)
}

// AppendRestBytes is [Tokenizer.AppendRest] for a text in bytes, which must not change meanwhile.
// They are not kept.
func (t *Tokenizer) AppendRestBytes(dst []uint32, rest []byte) ([]uint32, error) {
	return t.append(dst, view(rest), false)
}

// AppendSegment adds the tokens of a text without searching it for added tokens, so that <|im_end|>
// in a user's words stays words; start means that it begins the whole text. Python does this with
// split_special_tokens=True for special tokens; here no added token is found. Together with ID it
// builds a prompt from parts that each are computed once: the tokens of a template's texts, its
// special tokens and its messages, as long as the engine builds the prompt so too.
func (t *Tokenizer) AppendSegment(dst []uint32, text string, start bool) ([]uint32, error) {
	return t.appendSegment(dst, text, start)
}
