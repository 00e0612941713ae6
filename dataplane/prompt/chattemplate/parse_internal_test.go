package chattemplate

import "fmt"

// field returns where a field of the body goes, or nil for one that no template sees.
func (r *Request) field(name string) *[]byte {
	switch name {
	case "messages":
		return &r.Messages
	case "tools":
		return &r.Tools
	case "tool_choice":
		return &r.ToolChoice
	case "chat_template_kwargs":
		return &r.Kwargs
	case "reasoning_effort":
		return &r.ReasoningEffort
	case "reasoning":
		return &r.Reasoning
	case "continue_final_message":
		return &r.Continue
	case "input_ids":
		return &r.InputIDs
	}
	return nil
}

// ParseRequest finds the fields of a request's body, which they share. Of equal fields the last
// counts, as in Python. It does not check the inside of a field: Render does. The error is
// [ErrUnsupported].
func ParseRequest(body []byte) (Request, error) {
	var r Request
	var s state // escaped field names are decoded into it
	s.limit = Limits{}.withDefaults(len(body))
	d := decoder{s: &s, src: body}
	if !d.skip('{') {
		return r, d.fail("no object")
	}
	for first := true; !d.skip('}'); first = false {
		if !first && !d.skip(',') {
			return r, d.fail("expected , or }")
		}
		if d.space(); d.pos == len(d.src) || d.src[d.pos] != '"' {
			return r, d.fail("expected a key")
		}
		name, err := d.text()
		if err != nil {
			return r, err
		}
		if !d.skip(':') {
			return r, d.fail("expected :")
		}
		d.space()
		from := d.pos
		if err := d.pass(); err != nil {
			return r, err
		}
		if to := r.field(name); to != nil {
			*to = body[from:d.pos]
		}
	}
	if d.space(); d.pos != len(body) {
		return r, d.fail("more behind the object")
	}
	return r, nil
}

// pass goes over a value, looking at strings and brackets only.
func (d *decoder) pass() error {
	depth := 0
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case '"':
			if err := d.passText(); err != nil {
				return err
			}
			if depth == 0 {
				return nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil // end of the surrounding value
			}
			if depth--; depth == 0 {
				d.pos++
				return nil
			}
		case ',':
			if depth == 0 {
				return nil
			}
		}
		d.pos++
	}
	return d.fail("ends early")
}

// passText goes over a string.
func (d *decoder) passText() error {
	for d.pos++; d.pos < len(d.src); {
		d.pos += d.plainRun()
		if d.pos == len(d.src) {
			break
		}
		switch d.src[d.pos] {
		case '"':
			d.pos++
			return nil
		case '\\':
			d.pos++
		}
		d.pos++
	}
	return fmt.Errorf("%w: %w: string without end", ErrUnsupported, errJSON)
}
