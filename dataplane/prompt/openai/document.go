package openai

// document is a checked JSON object and the positions of the fields that routing reads.
type document struct {
	body  []byte
	spans [fieldCount]span
	key   []byte // buffer of the last key or short string with escapes
	name  []byte // buffer of the last name of a session with escapes
	model string // model of the body before: most bodies name the same one
	err   *Error // of the first field with an unusable value
}

// refuse notes that the value of a field, or an element of it so many bytes behind, is unusable.
func (d *document) refuse(f field, why string, behind int) {
	if d.err == nil {
		d.err = errAt(fieldNames[f], why, d.spans[f].lo+behind)
	}
}

// span is a half-open range of the body; hi == 0 means absent.
type span struct{ lo, hi int }

// raw returns the JSON of a field, nil when it is absent or null.
func (d *document) raw(f field) []byte {
	s := d.spans[f]
	if s.hi == 0 || d.body[s.lo] == 'n' {
		return nil
	}
	return d.body[s.lo:s.hi:s.hi]
}

// keyOf resolves a key's escapes; valid until the next call.
func (d *document) keyOf(key []byte, escaped bool) []byte {
	// Fast path: clients do not escape keys.
	if !escaped {
		return key
	}
	key, d.key = unescape(d.key, key)
	return key
}

// content returns the content of a raw JSON string, and nil of any other value. Of strings with
// escapes, only the last one read is valid.
func (d *document) content(raw []byte) (text []byte) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	text, d.name = unescape(d.name, raw[1:len(raw)-1])
	return text
}
