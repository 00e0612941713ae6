package responses

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Head holds the members of a body that decide where it goes.
type Head struct {
	Model string // "" where it is absent, or no plain text
	// Previous is the id of the response that the body continues, "" where it continues none.
	Previous string
	// ID is the id that the client has chosen for the response; see openai.Request.WholeRID for ids
	// that workers get.
	ID string
	// Store asks for the response to be kept, which is the default; Background for an answer before
	// it is computed.
	Store, Background bool
	// Input is the raw value of input.
	Input []byte
	// Template reports that the body brings a chat template.
	Template bool
	// Tools reports that the model may call tools. SGLang 0.5.23 then holds back the text of a
	// stream until it knows whether a call follows.
	Tools bool
}

// fields are the members of a body that decide the prompt, as raw JSON; nil where they are absent
// or null.
type fields struct {
	input, instructions       []byte
	tools, toolChoice         []byte
	reasoning, templateKwargs []byte
	nullTools, nullChoice     bool
	escaped                   bool // a key has escapes
}

// copied is a member that is copied to the body of the chat.
type copied struct{ key, raw []byte }

// check refuses bodies that the engine refuses for a member of theirs.
func (f *fields) check() error {
	switch {
	case f.escaped:
		return unsupported("a key with escapes")
	case f.nullTools, f.nullChoice:
		return refused("tools or tool_choice is null")
	case f.instructions != nil && !isString(f.instructions):
		return refused("instructions is no text")
	}
	return nil
}

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
	value, _ = lastMember(raw, name)
	return value
}

// lastMember is member, and reports whether the member is there.
func lastMember(raw []byte, name string) (value []byte, there bool) {
	if !isObject(raw) {
		return nil, false
	}
	_, _ = openai.Members(raw, 0, func(key []byte, lo, hi int) {
		if string(openai.Unescape(key)) == name {
			value, there = present(raw[lo:hi]), true
		}
	})
	return value, there
}

// is reports whether a raw value is that string. Clients may write any character as an escape.
func is(raw []byte, word string) bool {
	return isString(raw) && string(openai.Unescape(inside(raw))) == word
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
