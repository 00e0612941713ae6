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

func (f *fields) check() error {
	switch {
	case f.escaped:
		return unsupported("a key with escapes")
	case f.nullTools, f.nullChoice:
		return refused("tools or tool_choice is null")
	case f.instructions != nil && !openai.IsString(f.instructions):
		return refused("instructions is no text")
	}
	return nil
}

// truthy reports whether Python takes a raw value for true.
func truthy(raw []byte) bool {
	switch {
	case len(raw) == 0:
		return false
	case raw[0] == '"':
		return len(raw) > len(`""`)
	case raw[0] == '[', raw[0] == '{':
		return len(bytes.TrimSpace(openai.Inside(raw))) > 0
	case raw[0] == 't':
		return true
	}
	return bytes.ContainsAny(raw, "123456789") && raw[0] != 'n' && raw[0] != 'f'
}
