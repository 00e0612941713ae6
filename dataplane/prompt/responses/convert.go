package responses

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

var (
	// ErrRefused means that an engine answers the body with an error of its own.
	ErrRefused = errors.New("responses: the engine refuses the body")
	// ErrUnsupported means that the chat which an engine makes of the body is not known exactly.
	ErrUnsupported = errors.New("responses: not converted")
)

func refused(why string) error     { return fmt.Errorf("%w: %s", ErrRefused, why) }
func unsupported(why string) error { return fmt.Errorf("%w: %s", ErrUnsupported, why) }

// Dialect holds the properties of a model that decide the conversion.
type Dialect struct {
	// InlineSystem reports that the model's template renders system messages where they stand.
	// SGLang joins them at the beginning for other templates.
	InlineSystem bool
	// NoChat reports a model for which an engine makes no chat of a body.
	NoChat bool
}

// Converter writes chats. The zero value is ready; reuse it: it keeps its memory.
type Converter struct {
	messages messages
	text     []byte   // of a body that is not converted
	fields   fields   // of the body
	copied   []copied // its other members
}

// maxReused bounds each buffer that a Converter keeps: 1 MiB is a prompt of 262,144 tokens.
const maxReused = 1 << 20

// Read checks a body as JSON and finds its members, for AppendBody and AppendChat. The Converter
// and the Head alias the body. The error is an *openai.Error for a body that is no JSON object.
func (c *Converter) Read(body []byte) (h Head, err error) {
	c.fields, c.copied, h.Store = fields{}, c.copied[:0], true
	f := &c.fields
	err = openai.WalkObject(body, func(key []byte, lo, hi int) {
		raw := openai.Present(body[lo:hi])
		switch string(key) {
		case "input":
			f.input, h.Input = raw, raw
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
		case "model":
			h.Model = plain(raw)
		case "previous_response_id":
			h.Previous = plain(raw)
		case "request_id":
			h.ID = plain(raw)
		case "store":
			h.Store = raw != nil && raw[0] != 'f'
		case "background":
			h.Background = truthy(raw)
		}
		name := memberOfChat(key)
		if bytes.IndexByte(key, '\\') >= 0 {
			f.escaped = true
			if string(openai.Unescape(key)) == "chat_template_kwargs" {
				f.templateKwargs = raw
			}
			if name = memberOfChat(openai.Unescape(key)); name != nil {
				name = key
			}
		}
		if name != nil {
			c.copied = append(c.copied, copied{name, body[lo:hi]})
		}
	})
	_, h.Template = openai.LastMember(f.templateKwargs, "chat_template")
	h.Tools = truthy(f.tools) && !openai.Is(f.toolChoice, "none")
	return h, err
}

// AppendChat appends the chat of a body to dst: an object with messages, and with tools,
// tool_choice, reasoning_effort and chat_template_kwargs where the body decides them. history holds
// the values of "input" and "output" of the conversation that the body continues
// (previous_response_id), the oldest first. On an error dst is returned as it was.
func (c *Converter) AppendChat(dst, body []byte, history [][]byte, d Dialect) ([]byte, error) {
	if _, err := c.Read(body); err != nil {
		return dst, refused(err.Error())
	}
	return c.appendChat(dst, history, d)
}

// appendChat is AppendChat for the body of the last Read.
func (c *Converter) appendChat(dst []byte, history [][]byte, d Dialect) ([]byte, error) {
	m := &c.messages
	m.begin(d)
	f := &c.fields
	if err := f.check(); err != nil {
		return dst, err
	}
	if len(f.instructions) > len(`""`) {
		m.addSystem(f.instructions)
	}
	for _, list := range history {
		m.addInput(list)
	}
	m.addInput(f.input)
	m.endAssistant()
	if m.err != nil {
		return dst, m.err
	}
	if m.isEmpty() {
		return dst, unsupported("a conversation without messages")
	}
	start := len(dst)
	var err error
	dst = m.appendTo(dst)
	if dst, err = appendTools(dst, f); err != nil {
		return dst[:start], err
	}
	if dst, err = appendReasoning(dst, f); err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}

// emptied returns the memory of b for the next body, where it is not too much to keep.
func emptied(b []byte) []byte {
	if cap(b) > maxReused {
		return nil
	}
	return b[:0]
}
