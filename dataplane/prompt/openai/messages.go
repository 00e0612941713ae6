package openai

// messages holds the findings of the walk about "messages".
type messages struct {
	seen       bool
	multimodal bool
	why        string // the fault, "" without one
	at         int
}

// scan checks the value at i as a list of messages and looks for content that is not text.
func (c *messages) scan(d *document, i int) (int, *Error) {
	b := d.body
	*c = messages{seen: true, at: i, why: "must be a list of messages"}
	if i >= len(b) || b[i] != '[' {
		c.seen = i >= len(b) || b[i] != 'n'
		return skipValue(b, i, 1)
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		c.why = "must not be empty"
		return i + 1, nil
	}
	c.why = ""
	for more := true; more; {
		var err *Error
		if i = skipSpace(b, i); i < len(b) && b[i] == '{' {
			i, err = c.scanMessage(d, i+1)
		} else {
			if c.why == "" {
				c.why, c.at = "must hold objects only", i
			}
			i, err = skipValue(b, i, 2)
		}
		if err != nil {
			return i, err
		}
		if i, more, err = nextMember(b, i, ']'); err != nil {
			return i, err
		}
	}
	return i, nil
}

// scanMessage checks the rest of a message behind its brace. It and scan are walkObject and
// walkList without their calls, which would be a tenth of the time of a body of short messages.
func (c *messages) scanMessage(d *document, i int) (int, *Error) {
	b := d.body
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for more := true; more; {
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
		if i, more, err = nextMember(b, i, '}'); err != nil {
			return i, err
		}
	}
	return i, nil
}

// scanParts checks the rest of a list of content parts behind its bracket.
func (c *messages) scanParts(d *document, i int) (int, *Error) {
	return walkList(d.body, i, func(at int) (int, *Error) {
		if d.body[at] == '{' {
			return c.scanPart(d, at+1)
		}
		return skipValue(d.body, at, 4)
	})
}

// scanPart checks the rest of a content part behind its brace.
func (c *messages) scanPart(d *document, i int) (int, *Error) {
	return walkObject(d.body, i, func(key []byte, escaped bool, at int) (int, *Error) {
		isType := string(d.keyOf(key, escaped)) == "type"
		end, err := skipValue(d.body, at, 5)
		if err == nil && isType && !isTextPart(d, d.body[at:end]) {
			c.multimodal = true
		}
		return end, err
	})
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
