package tokenizer

// Tokenizer computes the tokens of texts. It is safe for concurrent use.
type Tokenizer struct {
	encoder
	post    postProcessor
	ids     map[string]uint32 // the model's vocabulary as the file spells it
	safe    map[uint32]bool   // tokens behind which a text may be cut, see CutAfter
	notices []string
}

// Append adds the tokens of a text to dst. Added tokens spelled in the text, such as <|im_end|>,
// are found, and nothing is put around the text. This is add_special_tokens=False of the Python
// library, as SGLang encodes a rendered chat. The text must be UTF-8, must not change meanwhile,
// and is not kept. The error is [ErrLimit]; dst is then returned as it was.
func (t *Tokenizer) Append(dst []uint32, text []byte) ([]uint32, error) {
	return t.append(dst, view(text), true)
}

// AppendSpecial is Append with the post-processor's tokens around the text, such as <s>:
// add_special_tokens=True.
func (t *Tokenizer) AppendSpecial(dst []uint32, text []byte) ([]uint32, error) {
	before := len(dst)
	dst, err := t.Append(append(dst, t.post.before...), text)
	if err != nil {
		return dst[:before], err
	}
	return append(dst, t.post.after...), nil
}

// AppendRest is Append for the text behind a cut; see [Tokenizer.CutAfter].
func (t *Tokenizer) AppendRest(dst []uint32, rest []byte) ([]uint32, error) {
	return t.append(dst, view(rest), false)
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
