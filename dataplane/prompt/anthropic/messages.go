package anthropic

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// messages appends the list of messages: the system prompt, and then the conversation.
func (w *writer) messages(r *request) {
	w.name("messages")
	w.dst = append(w.dst, '[')
	w.system(r)
	if kind(r.messages) != '[' {
		w.doubt()
		w.dst = append(w.dst, ']')
		return
	}
	objects(w, r.messages, func(at int) int { return w.message(r.messages, at) })
	if !w.exact && w.dst[len(w.dst)-1] == '[' {
		// A chat needs a message. This one compares by its bytes.
		w.dst = append(w.dst, `{"role":"user","content":`...)
		w.dst = append(openai.AppendString(w.dst, string(r.messages)), '}')
	}
	w.dst = append(w.dst, ']')
}

// system appends the system message: the texts of "system", and those of system messages in the
// conversation where the template does not render them there.
func (w *writer) system(r *request) {
	begin := len(w.dst)
	w.dst = append(w.dst, `{"role":"system","content":"`...)
	empty := len(w.dst)
	part := func(escaped []byte) {
		if len(w.dst) > empty {
			w.dst = append(w.dst, `\n`...)
		}
		w.dst = append(w.dst, escaped...)
	}
	switch kind(r.system) {
	case 0:
	case '"':
		if !isBlank(r.system) {
			part(openai.Inside(r.system))
		}
	case '[':
		objects(w, r.system, func(at int) int {
			b, end := readBlock(r.system, at)
			switch {
			case !openai.Is(b.kind, "text"): // SGLang skips it
			case !openai.IsString(b.text):
				w.doubt()
			case len(b.text) > len(`""`):
				part(openai.Inside(b.text))
			}
			return end
		})
	default:
		w.doubt()
	}
	w.inlineSystem(r, part)
	if len(w.dst) == empty {
		w.dst = w.dst[:begin]
		return
	}
	w.dst = append(w.dst, `"}`...)
}

// inlineSystem gives the texts of system messages to part, without the white space around them.
func (w *writer) inlineSystem(r *request, part func(escaped []byte)) {
	// Fast path: there are none, as nearly always.
	if w.rules.InlineSystem || !bytes.Contains(r.messages, []byte(`"system"`)) || kind(r.messages) != '[' {
		return
	}
	objects(w, r.messages, func(at int) int {
		role, c, end := roleAndContent(r.messages, at)
		if !openai.Is(role, "system") {
			return end
		}
		if !w.rules.Known {
			w.doubt()
		}
		var text []byte
		add := func(raw []byte) {
			if s := strip(openai.Unescape(openai.Inside(raw))); len(s) > 0 {
				if len(text) > 0 {
					text = append(text, '\n')
				}
				text = append(text, s...)
			}
		}
		switch kind(c) {
		case '"':
			add(c)
		case '[':
			objects(w, c, func(at int) int {
				b, end := readBlock(c, at)
				if openai.Is(b.kind, "text") && openai.IsString(b.text) {
					add(b.text)
				} else {
					w.doubt()
				}
				return end
			})
		default:
			w.doubt()
		}
		if len(text) > 0 {
			quoted := openai.AppendString(nil, string(text))
			part(openai.Inside(quoted))
		}
		return end
	})
}

// roleAndContent reads the message at an index, and returns the index after it.
func roleAndContent(list []byte, at int) (role, c []byte, end int) {
	end = openai.Pick(list, at, openai.To("role", &role), openai.To("content", &c))
	return role, c, end
}

func (w *writer) message(list []byte, at int) (end int) {
	role, c, end := roleAndContent(list, at)
	m := message{w: w, role: role, user: openai.Is(role, "user"), assistant: openai.Is(role, "assistant")}
	switch {
	case openai.Is(role, "system"):
		if !w.rules.InlineSystem {
			return end // its text is in the first message
		}
	case !m.user && !m.assistant:
		w.doubt()
		return end
	}
	switch kind(c) {
	case '"':
		m.open()
		w.member("content", c)
		w.dst = append(w.dst, '}')
	case '[':
		m.blocks(c)
	default:
		w.doubt()
	}
	return end
}

// message is a message that is being converted.
type message struct {
	w               *writer
	role            []byte
	user, assistant bool

	begun bool // the chat's message is open
	parts int  // of its content
	at    int  // in dst, behind the name of its content
	text  int  // in dst, where the text of its first part begins; 0 where that is no text
	// thought reports that thinking was converted.
	thought bool
}

func (m *message) open() {
	w := m.w
	w.comma()
	w.dst = append(w.dst, '{')
	w.member("role", m.role)
	m.begun = true
}

// part begins the next part of the message's content.
func (m *message) part() {
	w := m.w
	if !m.begun {
		m.open()
	}
	if m.parts == 0 {
		w.name("content")
		m.at, m.text = len(w.dst), 0
		w.dst = append(w.dst, '[')
	}
	w.comma()
	m.parts++
}

// addText appends a text to the content, as it is written in JSON without its quotes.
func (m *message) addText(pieces ...[]byte) {
	m.part()
	w := m.w
	w.dst = append(w.dst, `{"type":"text","text":`...)
	if m.parts == 1 {
		m.text = len(w.dst)
	}
	w.dst = append(w.dst, '"')
	for _, p := range pieces {
		w.dst = append(w.dst, p...)
	}
	w.dst = append(w.dst, `"}`...)
}

// closeParts ends the content: one text alone is no list.
func (m *message) closeParts() {
	w := m.w
	if m.parts == 1 && m.text > 0 {
		w.dst = append(w.dst[:m.at], w.dst[m.text:len(w.dst)-1]...)
	} else if m.parts > 0 {
		w.dst = append(w.dst, ']')
	}
	m.parts = 0
}

// flush ends the chat's message, if one is open.
func (m *message) flush() {
	if m.begun {
		m.closeParts()
		m.w.dst = append(m.w.dst, '}')
		m.begun = false
	}
}

func (m *message) blocks(list []byte) {
	if m.assistant {
		m.thinking(list)
	}
	m.w.calls = m.w.calls[:0]
	objects(m.w, list, func(at int) int {
		b, end := readBlock(list, at)
		m.block(&b)
		return end
	})
	if m.begun {
		m.closeParts()
	}
	if len(m.w.calls) > 0 {
		m.toolCalls()
	}
	switch {
	case m.begun:
		m.w.dst = append(m.w.dst, '}')
	case !m.user:
		m.open()
		m.w.dst = append(m.w.dst, `,"content":""}`...)
	}
}

// block converts one block of a content. Tool calls are kept for the end, and thinking has been
// converted before.
func (m *message) block(b *block) {
	w := m.w
	switch string(b.name()) {
	case "text":
		if !openai.IsString(b.text) {
			w.doubt()
			return
		}
		m.addText(openai.Inside(b.text))
	case "thinking", "redacted_thinking":
		if m.assistant && !m.thought {
			w.doubt() // its type was written with escapes
		}
	case "image":
		m.image(b.source)
	case "tool_use":
		if w.calls = append(w.calls, *b); !m.assistant {
			w.doubt()
		}
	case "tool_result":
		if !m.user {
			w.doubt()
			return
		}
		m.flush()
		appendToolResult(w, b)
	default:
		w.doubt()
	}
}

// thinking appends the thinking of an earlier turn as the first part of the content.
func (m *message) thinking(list []byte) {
	w := m.w
	// Fast path: a type is not written with escapes, nor a quote in a text without.
	if !bytes.Contains(list, []byte(`thinking"`)) {
		return
	}
	m.thought = true
	var pieces [][]byte
	objects(w, list, func(at int) int {
		b, end := readBlock(list, at)
		switch string(b.name()) {
		case "redacted_thinking":
			w.doubt() // SGLang refuses it
		case "thinking":
			if !openai.IsString(b.thinking) {
				w.doubt()
			} else if isFilled(b.thinking) {
				pieces = append(pieces, []byte(`\n`), openai.Inside(b.thinking))
			}
		}
		return end
	})
	if len(pieces) == 0 {
		return
	}
	if !w.rules.Known || w.rules.NativeThinking {
		w.doubt()
	}
	if w.rules.ThinkStart == "" {
		return // without a parser SGLang drops it
	}
	start, end := openai.AppendString(nil, w.rules.ThinkStart), openai.AppendString(nil, "\n"+w.rules.ThinkEnd)
	pieces[0] = openai.Inside(start)
	m.addText(append(pieces, openai.Inside(end))...)
}

// image appends an image as a checksum of its source. A source without data is left out.
func (m *message) image(source []byte) {
	if !isImage(source) {
		return
	}
	m.part()
	m.w.image(source)
}

func (w *writer) image(source []byte) {
	w.dst = append(w.dst, `{"type":"image_url","image_url":{"url":"`...)
	w.dst = append(openai.AppendChecksum(w.dst, source), `"}}`...)
}

// isImage reports whether SGLang makes an image of a source.
func isImage(source []byte) bool {
	if kind(source) != '{' {
		return false
	}
	if openai.Is(openai.Member(source, "type"), "base64") {
		return isFilled(openai.Member(source, "data"))
	}
	return isFilled(openai.Member(source, "url"))
}
