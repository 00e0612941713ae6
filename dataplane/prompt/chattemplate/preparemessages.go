package chattemplate

import "slices"

// genericRoles are the roles of ChatCompletionMessageGenericParam. latest_reminder and root are for
// models with encoders of their own.
var genericRoles = []string{"system", "assistant", "tool", "function", "developer"}

func (p *preparation) messages() value {
	v := decodeJSON(p.s, p.req.Messages, true)
	if v.k != kList || len(v.o.items) == 0 {
		return p.refuse("messages that are not a list, or an empty one")
	}
	items := v.o.items // ours: only this list refers to the decoder's values
	for i, m := range items {
		if m.k != kDict {
			return p.refuse("a message that is not an object")
		}
		if items[i] = p.message(m.o); p.s.err != nil {
			return v
		}
	}
	if p.takeLastAssistant(items) {
		if v.o.items = items[:len(items)-1]; len(v.o.items) == 0 {
			return p.refuse("a continued message without others")
		}
	}
	return v
}

// message is model_dump of one message, with its content in the template's format and without
// fields that are None.
func (p *preparation) message(o *object) value {
	role, _ := o.get("role")
	if role.k != kString {
		return p.refuse("a message without a role")
	}
	user := role.s == "user"
	if role.s = lowerCase(p.s, role.s); !user && !slices.Contains(genericRoles, role.s) {
		return p.refuse("the role %s", role.s)
	}
	content, last := p.content(o, role.s)
	switch {
	case user && content.k == kNone:
		return p.refuse("a user message without content")
	case user:
		return newDict(p.s, strValue("role"), role, strValue("content"), content)
	case content.k == kNone:
		content = strValue("")
	}
	// The order is that of the fields of ChatCompletionMessageGenericParam.
	var buf [18]value
	pairs := append(buf[:0], strValue("role"), role)
	add := func(name string, v value) {
		if v.k != kNone {
			pairs = append(pairs, strValue(name), v)
		}
	}
	if !last {
		add("content", content)
	}
	for _, name := range [...]string{"tool_call_id", "name", "phase", "reasoning_content"} {
		if name == "phase" && !p.m.dialect.phase {
			continue
		}
		v := p.want(o, name, kString)
		if name == "phase" && v.k == kString && v.s != "commentary" && v.s != "final_answer" {
			p.refuse("the phase %s", v.s)
		}
		add(name, v)
	}
	add("tool_calls", p.calls(o, role.s))
	if v, ok := o.get("tools"); ok && v.k != kNone {
		return p.refuse("tools in a message")
	}
	if p.m.dialect.prefix {
		add("prefix", p.want(o, "prefix", kBool))
	}
	if last {
		add("content", content)
	}
	return newDict(p.s, pairs...)
}

// content is process_content_for_template_format and normalize_tool_content, for text alone. last
// means that the field comes behind all others, as SGLang does with lists where the template takes
// lists.
func (p *preparation) content(o *object, role string) (content value, last bool) {
	v, ok := o.get("content")
	switch {
	case !ok || v.k == kNone:
		return noneValue, false
	case v.k == kString:
		return v, false
	case v.k != kList:
		return p.refuse("content that is neither text nor a list"), false
	}
	last = p.m.format == formatOpenAI
	texts := make([]string, 0, 2*len(v.o.items))
	size := 0
	for i, part := range v.o.items {
		if part.k != kDict {
			return p.refuse("a part of a content that is not an object"), false
		}
		kind, _ := part.o.get("type")
		text, _ := part.o.get("text")
		if kind.k != kString || kind.s != "text" || text.k != kString {
			return p.refuse("a part of a content that is not text"), false
		}
		v.o.items[i] = newDict(p.s, strValue("type"), kind, strValue("text"), text)
		if i > 0 {
			texts = append(texts, " ")
			size++
		}
		texts = append(texts, text.s)
		size += len(text.s)
	}
	if !last || role == "tool" {
		v = strValue(p.s.join(texts, size))
	}
	return v, last
}

// calls is the field tool_calls: ToolCall of protocol.py. Its fields stay where they are None,
// with arguments parsed for assistants.
func (p *preparation) calls(o *object, role string) value {
	v := p.want(o, "tool_calls", kList)
	if v.k != kList {
		return v
	}
	for i, call := range v.o.items {
		if call.k != kDict {
			return p.refuse("a tool call that is not an object")
		}
		if v.o.items[i] = p.call(call.o, role); p.s.err != nil {
			return v
		}
	}
	return v
}

// call is one entry of tool_calls. Arguments that are no JSON object are refused by the worker, so
// they are not rendered.
func (p *preparation) call(o *object, role string) value {
	id, index := p.want(o, "id", kString), p.want(o, "index", kInt)
	if kind, ok := o.get("type"); ok && (kind.k != kString || kind.s != "function") {
		return p.refuse("a tool call of another type")
	}
	f, ok := o.get("function")
	if !ok || f.k != kDict {
		return p.refuse("a tool call without a function")
	}
	name := p.want(f.o, "name", kString)
	arguments, ok := f.o.get("arguments")
	switch {
	case !ok:
		arguments = noneValue
	case arguments.k == kString && role == "assistant":
		if arguments = decodeJSON(p.s, bytesOf(arguments.s), true); arguments.k != kDict {
			return p.refuse("arguments that are not an object")
		}
	case arguments.k != kString && arguments.k != kDict && arguments.k != kNone:
		return p.refuse("arguments that are neither text nor an object")
	}
	function := newDict(p.s, strValue("name"), name, strValue("arguments"), arguments)
	return newDict(p.s, strValue("id"), id, strValue("index"), index, strValue("type"), strValue("function"), strValue("function"), function)
}

// takeLastAssistant is _handle_last_assistant_message: an assistant's text at the end becomes a
// user's, or the beginning of the answer. It reports whether the message goes.
func (p *preparation) takeLastAssistant(items []value) bool {
	last := items[len(items)-1]
	role, _ := last.o.get("role")
	content, _ := last.o.get("content")
	if role.k != kString || role.s != "assistant" || content.k != kString {
		return false
	}
	if p.continues() {
		p.begun = content.s
		return true
	}
	items[len(items)-1] = newDict(p.s, strValue("role"), strValue("user"), strValue("content"), content)
	return false
}
