package openai

// messages holds the findings of the walk about "messages".
type messages struct {
	seen       bool
	n          int
	multimodal bool
	why        string // the fault, "" without one
	at         int
}

// scan checks the value at i as a list of messages and looks for content that is not text.
func (c *messages) scan(d *document, i int) (int, *Error) {
	b := d.body
	*c = messages{seen: true, at: i}
	if i >= len(b) || b[i] != '[' {
		if i < len(b) && b[i] == 'n' {
			c.seen = false
		}
		c.why = "must be a list of messages"
		return skipValue(b, i, 1)
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		c.why = "must not be empty"
		return i + 1, nil
	}
	for {
		var err *Error
		i = skipSpace(b, i)
		if i < len(b) && b[i] == '{' {
			i, err = c.scanMessage(d, i+1)
		} else {
			c.complain("must hold objects only", i)
			i, err = skipValue(b, i, 2)
		}
		if err != nil {
			return i, err
		}
		c.n++
		var more bool
		if i, more, err = nextMember(b, i, ']'); err != nil || !more {
			return i, err
		}
	}
}

func (c *messages) complain(why string, at int) {
	if c.why == "" {
		c.why, c.at = why, at
	}
}

// scanMessage checks the rest of a message behind its brace.
func (c *messages) scanMessage(d *document, i int) (int, *Error) {
	b := d.body
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		key, escaped, at, err := scanKey(b, i)
		if err != nil {
			return at, err
		}
		if string(d.keyOf(key, escaped)) == "content" && at < len(b) && b[at] == '[' {
			i, err = c.scanParts(d, at+1)
		} else {
			i, err = skipValue(b, at, 3)
		}
		if err != nil {
			return i, err
		}
		var more bool
		if i, more, err = nextMember(b, i, '}'); err != nil || !more {
			return i, err
		}
	}
}

// scanParts checks the rest of a list of content parts behind its bracket.
func (c *messages) scanParts(d *document, i int) (int, *Error) {
	b := d.body
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err *Error
		i = skipSpace(b, i)
		if i < len(b) && b[i] == '{' {
			i, err = c.scanPart(d, i+1)
		} else {
			i, err = skipValue(b, i, 4)
		}
		if err != nil {
			return i, err
		}
		var more bool
		if i, more, err = nextMember(b, i, ']'); err != nil || !more {
			return i, err
		}
	}
}

// scanPart checks the rest of a content part behind its brace.
func (c *messages) scanPart(d *document, i int) (int, *Error) {
	b := d.body
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		key, escaped, at, err := scanKey(b, i)
		if err != nil {
			return at, err
		}
		isType := string(d.keyOf(key, escaped)) == "type"
		if i, err = skipValue(b, at, 5); err != nil {
			return i, err
		}
		if isType && !isTextPart(d, b[at:i]) {
			c.multimodal = true
		}
		var more bool
		if i, more, err = nextMember(b, i, '}'); err != nil || !more {
			return i, err
		}
	}
}

// isTextPart reports whether a part of this type (raw JSON) is text to every SGLang template. Any
// type not known here counts as media: the prompt's ids are then not trusted.
func isTextPart(d *document, raw []byte) bool {
	if raw[0] != '"' {
		return false
	}
	switch string(d.keyOf(raw[1:len(raw)-1], true)) {
	case "text", "thinking", "tool_reference":
		return true
	}
	return false
}
