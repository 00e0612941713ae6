package chattemplate

import (
	"encoding/json"
	"fmt"
	"time"
)

// ParseRequest finds the fields of a request's body.
func ParseRequest(body []byte) (r Request, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return r, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return Request{
		Messages: fields["messages"], Tools: fields["tools"], ToolChoice: fields["tool_choice"], Kwargs: fields["chat_template_kwargs"],
		ReasoningEffort: fields["reasoning_effort"], Reasoning: fields["reasoning"], Continue: fields["continue_final_message"],
		InputIDs: fields["input_ids"],
	}, nil
}

// Render is RenderBegun without the offset.
func (m *Model) Render(dst []byte, req Request) ([]byte, error) {
	out, _, err := m.RenderBegun(dst, req)
	return out, err
}

// Input holds the arguments of apply_chat_template of transformers. All fields are raw JSON; nil is
// Python's None.
type Input struct {
	Messages            []byte // a list of objects
	Tools               []byte // a list of objects, or null
	Kwargs              []byte // an object: special tokens, and other variables of the template
	AddGenerationPrompt bool
	Now                 time.Time // of strftime_now
	Limits              Limits
}

// Render appends the text that transformers renders of the input to dst. Errors are [ErrTemplate],
// [ErrUnsupported] or [ErrLimit]; dst is then returned as it was. It is safe for concurrent use.
func (t *Template) Render(dst []byte, in Input) (out []byte, err error) {
	s := t.begin(dst, in.Limits, len(in.Messages)+len(in.Tools)+len(in.Kwargs), func() time.Time { return in.Now })
	defer t.end(s, dst, &out, &err)
	setGlobals(s)
	var args [3]value
	for i, raw := range [][]byte{in.Messages, in.Tools, in.Kwargs} {
		if args[i] = noneValue; raw == nil {
			continue
		}
		if args[i] = decodeJSON(s, raw, false); s.err != nil {
			return dst, s.err
		}
	}
	if args[0].k != kList || args[2].k != kDict && args[2].k != kNone {
		return dst, fmt.Errorf("%w: messages that are not a list, or kwargs that are not an object", ErrUnsupported)
	}
	s.set("messages", args[0])
	s.set("tools", args[1])
	s.set("documents", noneValue)
	s.set("add_generation_prompt", boolValue(in.AddGenerationPrompt))
	if args[2].k == kDict {
		for i, k := range args[2].o.keys {
			s.set(k.s, args[2].o.items[i])
		}
	}
	if err := s.render(); err != nil {
		return dst, err
	}
	return s.out, nil
}
