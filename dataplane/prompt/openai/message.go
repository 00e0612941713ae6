package openai

// chat is what the walk learned of "messages".
type chat struct {
	seen       bool
	n          int
	multimodal bool
	why        string // what is wrong, "" when nothing is
	at         int
}

// scanMessages checks the value at i as a list of messages and looks for content that is not text.
func (r *Request) scanMessages(i int) (int, *Error) {
	b := r.body
	r.chat = chat{seen: true, at: i}
	if i >= len(b) || b[i] != '[' {
		if i < len(b) && b[i] == 'n' {
			r.chat.seen = false
		}
		r.chat.why = "must be a list of messages"
		return skipValue(b, i, 1)
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		r.chat.why = "must not be empty"
		return i + 1, nil
	}
	for {
		var err *Error
		i = skipSpace(b, i)
		if i < len(b) && b[i] == '{' {
			i, err = r.scanMessage(i + 1)
		} else {
			r.chat.complain("must hold objects only", i)
			i, err = skipValue(b, i, 2)
		}
		if err != nil {
			return i, err
		}
		r.chat.n++
		var more bool
		if i, more, err = nextMember(b, i, ']'); err != nil || !more {
			return i, err
		}
	}
}

func (c *chat) complain(why string, at int) {
	if c.why == "" {
		c.why, c.at = why, at
	}
}

// scanMessage checks the rest of a message whose brace stands before i.
func (r *Request) scanMessage(i int) (int, *Error) {
	b := r.body
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		key, escaped, at, err := scanKey(b, i)
		if err != nil {
			return at, err
		}
		if string(r.keyOf(key, escaped)) == "content" && at < len(b) && b[at] == '[' {
			i, err = r.scanParts(at + 1)
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

// scanParts checks the rest of a list of content parts whose bracket stands before i.
func (r *Request) scanParts(i int) (int, *Error) {
	b := r.body
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err *Error
		i = skipSpace(b, i)
		if i < len(b) && b[i] == '{' {
			i, err = r.scanPart(i + 1)
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

// scanPart checks the rest of a content part whose brace stands before i.
func (r *Request) scanPart(i int) (int, *Error) {
	b := r.body
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		key, escaped, at, err := scanKey(b, i)
		if err != nil {
			return at, err
		}
		isType := string(r.keyOf(key, escaped)) == "type"
		if i, err = skipValue(b, at, 5); err != nil {
			return i, err
		}
		if isType && !r.isTextPart(b[at:i]) {
			r.chat.multimodal = true
		}
		var more bool
		if i, more, err = nextMember(b, i, '}'); err != nil || !more {
			return i, err
		}
	}
}

// isTextPart says that a part of this type (raw JSON) is text to every SGLang template. Any type
// not known here counts as media: the prompt's ids are then not trusted.
func (r *Request) isTextPart(raw []byte) bool {
	if raw[0] != '"' {
		return false
	}
	switch string(r.keyOf(raw[1:len(raw)-1], true)) {
	case "text", "thinking", "tool_reference":
		return true
	}
	return false
}

// keyOf resolves a key's escapes; valid until the next call.
func (r *Request) keyOf(key []byte, escaped bool) []byte {
	// Fast path: nobody escapes keys.
	if !escaped {
		return key
	}
	key, r.key = unescape(r.key, key)
	return key
}
