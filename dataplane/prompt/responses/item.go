package responses

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// item holds the members of an input or output item as raw JSON; nil where they are absent or null.
type item struct {
	raw                               []byte
	kind, role, content, phase        []byte
	callID, id, name, arguments       []byte
	input, output, summary, encrypted []byte
	toolCalls, reasoningContent       []byte
	others                            int // members that a message keeps as they are
}

func (m *item) read(raw []byte) error {
	*m = item{raw: raw}
	if !openai.IsObject(raw) {
		return refused("an item is no object")
	}
	fields := openai.Fields{
		openai.To("type", &m.kind), openai.To("role", &m.role), openai.To("content", &m.content), openai.To("phase", &m.phase),
		openai.To("call_id", &m.callID), openai.To("id", &m.id), openai.To("name", &m.name), openai.To("arguments", &m.arguments),
		openai.To("input", &m.input), openai.To("summary", &m.summary), openai.To("encrypted_content", &m.encrypted),
		openai.To("tool_calls", &m.toolCalls), openai.To("reasoning_content", &m.reasoningContent),
	}
	escaped := false
	_, err := openai.Members(raw, 0, func(key []byte, lo, hi int) {
		if string(key) == "output" {
			m.output = raw[lo:hi] // also null
		} else if !fields.Take(key, raw[lo:hi]) {
			escaped = escaped || bytes.IndexByte(key, '\\') >= 0
		}
		if raw[lo] != 'n' && !fixedMember(key) {
			m.others++
		}
	})
	switch {
	case err != nil:
		return refused(err.Error())
	case escaped:
		return unsupported("a key with escapes")
	}
	return nil
}

// fixedMember reports whether a member of a message is dropped, or written apart from the others.
func fixedMember(key []byte) bool {
	switch string(key) {
	case "id", "status", "type", "role", "content", "phase", "tool_calls", "reasoning_content":
		return true
	}
	return false
}

// addItem adds the message of an item (_normalize_response_message_for_chat).
func (c *messages) addItem(raw []byte) error {
	m := &c.item
	if err := m.read(raw); err != nil {
		return err
	}
	if openai.IsString(m.id) && m.content != nil {
		m.id = nil
	}
	if m.kind != nil && !openai.IsString(m.kind) {
		return refused("the type of an item is no text")
	}
	kind := ""
	if m.kind != nil {
		// There are few kinds: the compiler keeps the text on the stack.
		kind = string(openai.Unescape(openai.Inside(m.kind)))
	}
	developer := openai.Is(m.role, "developer")
	switch {
	case kind != "" && kind != "message" && developer:
		return unsupported("a developer's item that is no message")
	case kind == "function_call":
		return c.addCall(m)
	case kind == "custom_tool_call":
		return c.addCustomCall(m)
	case kind == "function_call_output", kind == "custom_tool_call_output":
		return c.addToolOutput(m)
	case kind == "reasoning":
		return addReasoning(c, m)
	case kind == "message", m.kind == nil:
		return c.addMessage(m, developer)
	}
	return refused("an item of another type")
}

func (c *messages) addMessage(m *item, developer bool) error {
	switch {
	case m.role == nil:
		return refused("a message without a role")
	case m.phase != nil && (!openai.IsString(m.phase) || bytes.IndexByte(m.phase, '\\') >= 0):
		return unsupported("an unusual phase")
	case m.content != nil && !openai.IsString(m.content) && !openai.IsList(m.content):
		return refused("a content is neither text nor a list")
	case openai.Is(m.role, "assistant"):
		return c.joinMessage(m)
	case developer || openai.Is(m.role, "system"):
		c.noteSystem(openai.IsString(m.content))
		if !c.dialect.InlineSystem {
			c.endAssistant()
			return c.joinSystemContent(m.content, developer)
		}
	}
	c.beginMessage()
	role := m.role
	if developer {
		role = roleSystem
	}
	c.rest = openai.AppendMember(append(c.rest, '{'), "role", role)
	if m.content != nil {
		c.rest = append(c.rest, `,"content":`...)
		var err error
		if c.rest, err = appendContent(c.rest, m.content, developer, c.sums); err != nil {
			return err
		}
	}
	c.rest = openai.AppendMember(c.rest, "phase", m.phase)
	c.rest = openai.AppendMember(c.rest, "tool_calls", m.toolCalls)
	c.rest = openai.AppendMember(c.rest, "reasoning_content", m.reasoningContent)
	c.rest = m.appendOthers(c.rest)
	c.rest = append(c.rest, '}')
	return nil
}

var roleSystem = []byte(`"system"`)

// appendOthers appends the members that a message keeps as they are. null is as good as none.
func (m *item) appendOthers(dst []byte) []byte {
	if m.others == 0 {
		return dst
	}
	_, _ = openai.Members(m.raw, 0, func(key []byte, lo, hi int) {
		if !fixedMember(key) {
			dst = openai.AppendMember(dst, string(key), m.raw[lo:hi])
		}
	})
	return dst
}

// joinSystemContent adds the texts of a system message to the one at the beginning.
func (c *messages) joinSystemContent(content []byte, developer bool) error {
	if openai.IsString(content) {
		c.joinSystem(nil)
		if developer {
			c.system = append(c.system, developerLabel+`\n`...)
		}
		c.system = append(c.system, openai.Inside(content)...)
		return nil
	}
	if content == nil {
		return nil
	}
	label := developer
	if developer && !hasText(content) {
		c.joinSystem([]byte(developerLabel))
		label = false
	}
	var err error
	_, _ = openai.Elements(content, 0, func(lo, hi int) {
		var p part
		if p.read(content[lo:hi]); p.escaped {
			err = unsupported("a key with escapes")
		}
		text := p.text
		if !p.object || !openai.IsString(text) {
			if p.object && text == nil && p.isTextual() {
				c.joinSystem(nil) // its text reads as empty
			}
			return
		}
		c.joinSystem(nil)
		if label {
			c.system = append(c.system, developerLabel+`\n`...)
			label = false
		}
		c.system = append(c.system, openai.Inside(text)...)
	})
	return err
}

func (c *messages) addToolOutput(m *item) error {
	c.beginMessage()
	c.rest = openai.AppendMember(append(c.rest, `{"role":"tool"`...), "tool_call_id", openai.OrNull(m.callID))
	c.rest = append(c.rest, `,"content":`...)
	switch {
	case m.output == nil:
		c.rest = append(c.rest, `""`...)
	case openai.IsList(m.output):
		var err error
		c.rest = append(c.rest, '"')
		_, _ = openai.Elements(m.output, 0, func(lo, hi int) {
			p := part{}
			p.read(m.output[lo:hi])
			switch {
			case p.escaped:
				err = unsupported("a key with escapes")
			case p.object && openai.IsString(p.text):
				c.rest = append(c.rest, openai.Inside(p.text)...)
			case p.object && p.hasText:
				err = refused("a text of a tool's output is no text")
			}
		})
		c.rest = append(c.rest, '"')
		if err != nil {
			return err
		}
	case openai.IsString(m.output), m.output[0] == 'n':
		c.rest = append(c.rest, m.output...)
	default:
		return refused("a tool's output is neither text nor a list")
	}
	c.rest = append(c.rest, '}')
	return nil
}
