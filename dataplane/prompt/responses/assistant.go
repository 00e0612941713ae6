package responses

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// assistant is an assistant's message to which more items may belong: a turn of the Responses API
// is several items, and one message of a chat (_merge_consecutive_assistant_messages).
type assistant struct {
	open         bool
	phase        []byte // raw; nil without one
	content      []byte // inside of a string, or of a list
	kind         contentKind
	calls        []byte // elements of tool_calls
	hasCalls     bool
	reasoning    []byte // inside of a string
	hasReasoning bool
	others       []byte // other members, with commas between
}

type contentKind uint8

const (
	noContent contentKind = iota
	textContent
	listContent
)

func (a *assistant) reset() {
	*a = assistant{
		phase: emptied(a.phase), content: emptied(a.content), calls: emptied(a.calls),
		reasoning: emptied(a.reasoning), others: emptied(a.others),
	}
}

// join makes room for an item of the given phase: in the open message, or in a new one.
func (c *messages) join(phase []byte) (a *assistant, fresh bool) {
	a = &c.assistant
	if a.open && !bytes.Equal(a.phase, phase) && !a.isReasoningOnly() {
		c.endAssistant()
	}
	if fresh = !a.open; fresh {
		a.reset()
		a.open = true
	}
	if phase != nil {
		a.phase = append(a.phase[:0], phase...)
	}
	return a, fresh
}

func (a *assistant) isReasoningOnly() bool {
	return a.hasReasoning && a.kind == noContent && !a.hasCalls && len(a.phase) == 0 && len(a.others) == 0
}

func (c *messages) joinMessage(m *item) error {
	if m.reasoningContent != nil && !openai.IsString(m.reasoningContent) || m.toolCalls != nil && !openai.IsList(m.toolCalls) {
		return unsupported("an unusual message of an assistant")
	}
	a, fresh := c.join(m.phase)
	if err := a.addContent(m.content, fresh, c.sums); err != nil {
		return err
	}
	if m.toolCalls != nil && (fresh || truthy(m.toolCalls)) {
		a.addCall(bytes.TrimSpace(openai.Inside(m.toolCalls)))
	}
	if m.reasoningContent != nil && (fresh || truthy(m.reasoningContent)) {
		a.addReasoning(openai.Inside(m.reasoningContent))
	}
	if fresh {
		a.others = m.appendOthers(a.others)
	}
	return nil
}

func (a *assistant) addContent(content []byte, fresh, sums bool) error {
	switch {
	case content == nil:
		return nil
	case openai.IsString(content) && len(content) == len(`""`):
		if fresh {
			a.kind = textContent
		}
		return nil
	case a.kind == noContent, a.kind == textContent && len(a.content) == 0:
		a.content = a.content[:0]
		var err error
		if a.kind = listContent; openai.IsString(content) {
			a.kind = textContent
			a.content = append(a.content, openai.Inside(content)...)
			return nil
		}
		a.content, err = appendParts(a.content, content, sums)
		return err
	case a.kind == textContent && openai.IsString(content):
		a.content = append(a.content, `\n\n`...)
		a.content = append(a.content, openai.Inside(content)...)
		return nil
	}
	if a.kind == textContent {
		a.asList()
	}
	if len(a.content) > 0 {
		a.content = append(a.content, ',')
	}
	if openai.IsString(content) {
		a.content = append(a.content, `{"type":"text","text":`...)
		a.content = append(append(a.content, content...), '}')
		return nil
	}
	n := len(a.content)
	var err error
	if a.content, err = appendParts(a.content, content, sums); len(a.content) == n && n > 0 {
		a.content = a.content[:n-1] // an empty list
	}
	return err
}

// asList turns the message's text into a list of one part.
func (a *assistant) asList() {
	const begin, end = `{"type":"text","text":"`, `"}`
	n := len(a.content)
	a.content = append(a.content, begin...)
	copy(a.content[len(begin):], a.content[:n])
	copy(a.content, begin)
	a.content = append(a.content, end...)
	a.kind = listContent
}

// appendParts appends the parts of a list, without its brackets.
func appendParts(dst, content []byte, sums bool) ([]byte, error) {
	n := len(dst)
	dst, err := appendContent(dst, content, false, sums)
	copy(dst[n:], dst[n+1:len(dst)-1])
	return dst[:len(dst)-2], err
}

func (a *assistant) addCall(elements []byte) {
	if a.hasCalls = true; len(elements) == 0 {
		return
	}
	if len(a.calls) > 0 {
		a.calls = append(a.calls, ',')
	}
	a.calls = append(a.calls, elements...)
}

func (a *assistant) addReasoning(text []byte) {
	if a.hasReasoning && len(a.reasoning) > 0 {
		a.reasoning = append(a.reasoning, `\n`...)
	}
	a.hasReasoning = true
	a.reasoning = append(a.reasoning, text...)
}

// endAssistant writes the open message, if there is one.
func (c *messages) endAssistant() {
	a := &c.assistant
	if !a.open {
		return
	}
	a.open = false
	c.separate()
	c.rest = append(c.rest, `{"role":"assistant"`...)
	switch a.kind {
	case textContent:
		c.rest = append(append(append(c.rest, `,"content":"`...), a.content...), '"')
	case listContent:
		c.rest = append(append(append(c.rest, `,"content":[`...), a.content...), ']')
	case noContent:
	}
	if len(a.phase) > 0 {
		c.rest = openai.AppendMember(c.rest, "phase", a.phase)
	}
	if a.hasReasoning {
		c.rest = append(append(append(c.rest, `,"reasoning_content":"`...), a.reasoning...), '"')
	}
	if a.hasCalls {
		c.rest = append(append(append(c.rest, `,"tool_calls":[`...), a.calls...), ']')
	}
	if len(a.others) > 0 {
		c.rest = append(append(c.rest, ','), a.others...)
	}
	c.rest = append(c.rest, '}')
}

// addCall adds a function_call.
func (c *messages) addCall(m *item) error {
	arguments := []byte(`"{}"`)
	switch {
	case openai.IsObject(m.arguments):
		arguments = m.arguments
	case openai.IsString(m.arguments):
		if c.text = openai.AppendUnescaped(c.text[:0], openai.Inside(m.arguments)); isStrictObject(c.text) {
			arguments = m.arguments
		}
	}
	c.appendCall(m)
	a := &c.assistant
	a.calls = append(append(a.calls, arguments...), `}}`...)
	return nil
}

// addCustomCall adds a custom_tool_call: its text is the one argument of a function.
func (c *messages) addCustomCall(m *item) error {
	if truthy(m.input) && !openai.IsString(m.input) {
		return unsupported("the input of a custom tool is no text")
	}
	c.text = c.text[:0]
	if openai.IsString(m.input) {
		c.text = openai.AppendUnescaped(c.text, openai.Inside(m.input))
	}
	c.appendCall(m)
	a := &c.assistant
	a.calls = append(a.calls, `"{\"input\": \"`...)
	a.calls = appendTwiceEscaped(a.calls, c.text)
	a.calls = append(a.calls, `\"}"}}`...)
	return nil
}

// appendCall begins a tool call, up to its arguments.
func (c *messages) appendCall(m *item) {
	a, _ := c.join(nil)
	id := m.callID
	if !truthy(id) {
		id = m.id
	}
	a.addCall([]byte{'{'})
	a.calls = openai.AppendMember(a.calls, "id", openai.OrNull(id))
	a.calls = append(a.calls, `,"type":"function","function":{`...)
	a.calls = openai.AppendMember(a.calls, "name", openai.OrNull(m.name))
	a.calls = openai.AppendName(a.calls, "arguments")
}
