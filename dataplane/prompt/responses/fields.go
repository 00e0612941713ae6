package responses

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// fields are the members of a body that decide the prompt, as raw JSON; nil where they are absent
// or null.
type fields struct {
	input, instructions       []byte
	tools, toolChoice         []byte
	reasoning, templateKwargs []byte
	nullTools, nullChoice     bool
}

// readFields finds the members of a body.
func readFields(body []byte) (fields, error) {
	var f fields
	var escaped bool
	_, err := openai.Members(body, len(body)-len(bytes.TrimPrefix(body, byteOrder)), func(key []byte, lo, hi int) {
		raw := present(body[lo:hi])
		switch string(key) {
		case "input":
			f.input = raw
		case "instructions":
			f.instructions = raw
		case "tools":
			f.tools, f.nullTools = raw, raw == nil
		case "tool_choice":
			f.toolChoice, f.nullChoice = raw, raw == nil
		case "reasoning":
			f.reasoning = raw
		case "chat_template_kwargs":
			f.templateKwargs = raw
		default:
			escaped = escaped || bytes.IndexByte(key, '\\') >= 0
		}
	})
	switch {
	case err != nil:
		return f, refused(err.Error())
	case escaped:
		return f, unsupported("a key with escapes")
	case f.nullTools, f.nullChoice:
		return f, refused("tools or tool_choice is null")
	case f.instructions != nil && !isString(f.instructions):
		return f, refused("instructions is no text")
	}
	return f, nil
}

// byteOrder is the mark that some clients put before UTF-8.
var byteOrder = []byte("\xef\xbb\xbf")

// present returns a raw value, nil for null.
func present(raw []byte) []byte {
	if len(raw) > 0 && raw[0] == 'n' {
		return nil
	}
	return raw
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isList(raw []byte) bool   { return len(raw) > 0 && raw[0] == '[' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// inside returns a raw string without its quotes.
func inside(raw []byte) []byte { return raw[1 : len(raw)-1] }

// member returns the last member of that name in an object; nil where there is none, or null.
func member(raw []byte, name string) (value []byte) {
	if !isObject(raw) {
		return nil
	}
	_, _ = openai.Members(raw, 0, func(key []byte, lo, hi int) {
		if string(key) == name {
			value = present(raw[lo:hi])
		}
	})
	return value
}

// is reports whether a raw value is that string, which must need no escape.
func is(raw []byte, word string) bool {
	return len(raw) == len(word)+2 && raw[0] == '"' && string(inside(raw)) == word
}

// truthy reports whether Python takes a raw value for true.
func truthy(raw []byte) bool {
	switch {
	case len(raw) == 0:
		return false
	case raw[0] == '"':
		return len(raw) > len(`""`)
	case raw[0] == '[', raw[0] == '{':
		return len(bytes.TrimSpace(inside(raw))) > 0
	case raw[0] == 't':
		return true
	}
	return bytes.ContainsAny(raw, "123456789") && raw[0] != 'n' && raw[0] != 'f'
}
