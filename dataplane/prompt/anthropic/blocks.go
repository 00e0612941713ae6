package anthropic

import "github.com/warmpath/warmpath/dataplane/prompt/openai"

// block holds the members of a content block that the conversion reads, as raw JSON; nil where a
// member is absent or null.
type block struct {
	kind, text, thinking, source, id, toolUseID, tool, toolName, input, content []byte
}

// readBlock reads the content block at an index, and returns the index after it.
func readBlock(list []byte, at int) (b block, end int) {
	end = openai.Pick(list, at, openai.To("type", &b.kind), openai.To("text", &b.text), openai.To("thinking", &b.thinking),
		openai.To("source", &b.source), openai.To("id", &b.id), openai.To("tool_use_id", &b.toolUseID), openai.To("name", &b.tool),
		openai.To("tool_name", &b.toolName), openai.To("input", &b.input), openai.To("content", &b.content))
	return b, end
}

// name returns the type of the block.
func (b *block) name() []byte {
	if !openai.IsString(b.kind) {
		return nil
	}
	return openai.Unescape(openai.Inside(b.kind))
}

func (m *message) toolCalls() {
	w := m.w
	if !m.begun {
		m.open()
	}
	w.name("tool_calls")
	w.dst = append(w.dst, '[')
	for i := range w.calls {
		b := &w.calls[i]
		if !openai.IsString(b.id) || !openai.IsString(b.tool) || b.input != nil && kind(b.input) != '{' {
			w.doubt()
			continue
		}
		if len(b.id) == len(`""`) {
			w.doubt() // the worker makes an id of its own
		}
		w.comma()
		if b.input == nil {
			b.input = []byte(`{}`)
		}
		w.dst = append(w.dst, '{')
		w.member("id", b.id)
		w.dst = append(w.dst, `,"type":"function","function":{`...)
		w.member("name", b.tool)
		// SGLang makes a string of the input, and its chat template gets the object back.
		w.member("arguments", b.input)
		w.dst = append(w.dst, `}}`...)
	}
	w.dst = append(w.dst, ']')
}

func appendToolResult(w *writer, b *block) {
	id := b.toolUseID
	if !isFilled(id) {
		id = b.id
	}
	if id == nil {
		id = []byte(`""`)
	}
	if !openai.IsString(id) {
		w.doubt()
		return
	}
	m := message{w: w, role: []byte(`"tool"`)}
	switch kind(b.content) {
	case 0:
	case '"':
		m.openResult(id)
		w.member("content", b.content)
		w.dst = append(w.dst, '}')
		return
	case '[':
		references := false
		objects(w, b.content, func(at int) int {
			item, end := readBlock(b.content, at)
			m.resultBlock(&item, id, &references)
			return end
		})
	default:
		w.doubt()
	}
	if m.begun {
		m.flush()
		return
	}
	m.openResult(id)
	w.dst = append(w.dst, `,"content":""}`...)
}

func (m *message) openResult(id []byte) {
	m.open()
	m.w.member("tool_call_id", id)
}

// resultBlock appends a block of a tool's result. References to tools have messages of their own.
func (m *message) resultBlock(b *block, id []byte, references *bool) {
	w := m.w
	begin := func(reference bool) {
		if m.begun && *references != reference {
			m.flush()
		}
		if *references = reference; !m.begun {
			m.openResult(id)
		}
	}
	switch string(b.name()) {
	case "text":
		if !openai.IsString(b.text) {
			w.doubt()
			return
		}
		if isFilled(b.text) {
			begin(false)
			m.addText(openai.Inside(b.text))
		}
	case "image":
		if isImage(b.source) {
			begin(false)
			m.image(b.source)
		}
	case "tool_reference":
		name := b.toolName
		if !isFilled(name) {
			name = b.tool
		}
		if isFilled(name) {
			begin(true)
			m.part()
			w.dst = append(append(append(w.dst, `{"type":"tool_reference","name":`...), name...), '}')
		}
	default:
		w.doubt()
	}
}
