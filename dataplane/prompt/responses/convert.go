package responses

import (
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
	// Known reports that InlineSystem is known.
	Known bool
	// InlineSystem reports that the model's template renders system messages where they stand.
	// SGLang joins them at the beginning for other templates.
	InlineSystem bool
	// NoChat reports a model for which an engine makes no chat of a body.
	NoChat bool
}

// Converter writes chats. The zero value is ready; reuse it: it keeps its memory.
type Converter struct {
	dialect   Dialect
	rest      []byte    // messages, without those that are joined at the beginning
	system    []byte    // joined text of these, as the inside of a JSON string
	hasSystem bool      // there is such a message, perhaps an empty one
	assistant assistant // the last message, while others may join it
	text      []byte    // unescaped text
	tool      []byte    // the tool being written
	item      item
	fields    fields   // of the body
	copied    []copied // its other members
	doubtful  bool     // the chat depends on InlineSystem
	err       error
}

// maxReused bounds each buffer that a Converter keeps: 1 MiB is a prompt of 262,144 tokens.
const maxReused = 1 << 20

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
	c.begin(d)
	f := &c.fields
	if err := f.check(); err != nil {
		return dst, err
	}
	if len(f.instructions) > len(`""`) {
		c.addSystem(f.instructions)
	}
	for _, list := range history {
		c.addInput(list)
	}
	c.addInput(f.input)
	c.endAssistant()
	if c.err != nil {
		return dst, c.err
	}
	if len(c.rest) == 0 && !c.hasSystem {
		return dst, unsupported("a conversation without messages")
	}
	start := len(dst)
	var err error
	dst = c.appendMessages(dst)
	if dst, err = appendTools(dst, f); err != nil {
		return dst[:start], err
	}
	if dst, err = appendReasoning(dst, f); err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}

func (c *Converter) begin(d Dialect) {
	c.dialect, c.err, c.hasSystem, c.doubtful = d, nil, false, false
	c.rest, c.system = emptied(c.rest), emptied(c.system)
	c.text, c.tool = emptied(c.text), emptied(c.tool)
	c.assistant.reset()
}

// emptied returns the memory of b for the next body, where it is not too much to keep.
func emptied(b []byte) []byte {
	if cap(b) > maxReused {
		return nil
	}
	return b[:0]
}

// appendMessages appends the beginning of the chat, up to and with the messages.
func (c *Converter) appendMessages(dst []byte) []byte {
	dst = append(dst, `{"messages":[`...)
	if c.hasSystem {
		dst = append(dst, `{"role":"system","content":"`...)
		dst = append(dst, c.system...)
		dst = append(dst, `"}`...)
		if len(c.rest) > 0 {
			dst = append(dst, ',')
		}
	}
	dst = append(dst, c.rest...)
	return append(dst, ']')
}

// addInput adds the messages of one "input" or "output": a text, or a list of items.
func (c *Converter) addInput(raw []byte) {
	switch {
	case c.err != nil:
	case isString(raw):
		c.beginMessage()
		c.rest = append(c.rest, `{"role":"user","content":`...)
		c.rest = append(c.rest, raw...)
		c.rest = append(c.rest, '}')
	case len(raw) > 0 && raw[0] == '[':
		_, err := openai.Elements(raw, 0, func(lo, hi int) {
			if c.err == nil {
				c.err = c.addItem(raw[lo:hi])
			}
		})
		if err != nil {
			c.err = refused(err.Error())
		}
	default:
		c.err = refused("input is neither a text nor a list")
	}
}

// beginMessage makes room for a message that no assistant's message joins.
func (c *Converter) beginMessage() {
	c.endAssistant()
	c.separate()
}

func (c *Converter) separate() {
	if len(c.rest) > 0 {
		c.rest = append(c.rest, ',')
	}
}

// addSystem adds the instructions, a JSON string.
func (c *Converter) addSystem(raw []byte) {
	if !c.dialect.InlineSystem {
		c.joinSystem(inside(raw))
		return
	}
	c.beginMessage()
	c.rest = append(c.rest, `{"role":"system","content":`...)
	c.rest = append(c.rest, raw...)
	c.rest = append(c.rest, '}')
}

// joinSystem adds a text to the one system message.
func (c *Converter) joinSystem(text []byte) {
	c.doubtful = c.doubtful || c.hasSystem || len(c.rest) > 0 || c.assistant.open
	if c.hasSystem {
		c.system = append(c.system, `\n\n`...)
	}
	c.hasSystem = true
	c.system = append(c.system, text...)
}
