package responses

import "github.com/warmpath/warmpath/dataplane/prompt/openai"

type messages struct {
	dialect   Dialect
	rest      []byte    // messages, without those that are joined at the beginning
	system    []byte    // joined text of these, as the inside of a JSON string
	hasSystem bool      // there is such a message, perhaps an empty one
	systems   int       // system messages so far
	doubtful  bool      // the chat depends on InlineSystem
	assistant assistant // the last message, while others may join it
	text      []byte    // unescaped text
	item      item
	sums      bool // media are written as checksums
	err       error
}

func (c *messages) begin(d Dialect) {
	c.dialect, c.err, c.hasSystem, c.systems, c.doubtful = d, nil, false, 0, false
	c.rest, c.system, c.text = emptied(c.rest), emptied(c.system), emptied(c.text)
	c.assistant.reset()
}

func (c *messages) isEmpty() bool { return len(c.rest) == 0 && !c.hasSystem }

// appendTo appends the beginning of the chat, up to and with the messages.
func (c *messages) appendTo(dst []byte) []byte {
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
func (c *messages) addInput(raw []byte) {
	switch {
	case c.err != nil:
	case openai.IsString(raw):
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
func (c *messages) beginMessage() {
	c.endAssistant()
	c.separate()
}

func (c *messages) separate() {
	if len(c.rest) > 0 {
		c.rest = append(c.rest, ',')
	}
}

func (c *messages) addSystem(raw []byte) {
	c.noteSystem(true)
	if !c.dialect.InlineSystem {
		c.joinSystem(openai.Inside(raw))
		return
	}
	c.beginMessage()
	c.rest = append(c.rest, `{"role":"system","content":`...)
	c.rest = append(c.rest, raw...)
	c.rest = append(c.rest, '}')
}

// noteSystem notes whether a system message makes the chat depend on the dialect: one text at the
// beginning is the same in both.
func (c *messages) noteSystem(text bool) {
	c.doubtful = c.doubtful || c.systems > 0 || len(c.rest) > 0 || c.assistant.open || !text
	c.systems++
}

func (c *messages) joinSystem(text []byte) {
	if c.hasSystem {
		c.system = append(c.system, `\n\n`...)
	}
	c.hasSystem = true
	c.system = append(c.system, text...)
}
