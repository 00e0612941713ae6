package chattemplate

import "slices"

// genericRoles are the roles of ChatCompletionMessageGenericParam. latest_reminder and root are for
// models with encoders of their own.
var genericRoles = []string{"system", "assistant", "tool", "function", "developer"}

// messages makes the list that the template gets.
func (p *preparation) messages() (value, error) {
	v, err := decodeJSON(p.s, p.req.Messages, true)
	if err != nil {
		return v, err
	}
	if v.k != kList || len(v.o.items) == 0 {
		return v, refuse("messages that are not a list, or an empty one")
	}
	items := v.o.items // ours: only this list refers to the decoder's values
	for i, m := range items {
		if m.k != kDict {
			return v, refuse("a message that is not an object")
		}
		if items[i], err = p.message(m.o); err != nil {
			return v, err
		}
		if p.s.err != nil { // a limit, and then there is no message
			return v, p.s.err
		}
	}
	if p.takeLastAssistant(items) {
		if v.o.items = items[:len(items)-1]; len(v.o.items) == 0 {
			return v, refuse("a continued message without others")
		}
	}
	return v, p.s.err
}

// message is model_dump of one message, with its content in the template's format and without
// fields that are None.
func (p *preparation) message(o *object) (value, error) {
	role, _ := o.get("role")
	if role.k != kString {
		return role, refuse("a message without a role")
	}
	if role.s == "user" {
		content, _, err := p.content(o, role.s)
		if err != nil {
			return role, err
		}
		if content.k == kNone {
			return role, refuse("a user message without content")
		}
		return newDict(p.s, strValue("role"), role, strValue("content"), content), nil
	}
	role.s = lowerCase(p.s, role.s)
	if !slices.Contains(genericRoles, role.s) {
		return role, refuse("the role %s", role.s)
	}
	return p.generic(o, role)
}

// generic is a message of any role but user. The order is that of the fields of
// ChatCompletionMessageGenericParam.
func (p *preparation) generic(o *object, role value) (value, error) {
	content, last, err := p.content(o, role.s)
	if err != nil {
		return role, err
	}
	if content.k == kNone {
		content = strValue("")
	}
	var buf [18]value
	pairs := append(buf[:0], strValue("role"), role)
	if !last {
		pairs = append(pairs, strValue("content"), content)
	}
	fields := []string{"tool_call_id", "name", "phase", "reasoning_content"}
	for _, name := range fields {
		if name == "phase" && !p.m.dialect.phase {
			continue
		}
		v, err := want(o, name, kString)
		if err != nil {
			return v, err
		}
		if name == "phase" && v.k != kNone && v.s != "commentary" && v.s != "final_answer" {
			return v, refuse("the phase %s", v.s)
		}
		if v.k != kNone {
			pairs = append(pairs, strValue(name), v)
		}
	}
	calls, err := p.calls(o, role.s)
	if err != nil {
		return calls, err
	}
	if calls.k != kNone {
		pairs = append(pairs, strValue("tool_calls"), calls)
	}
	if v, ok := o.get("tools"); ok && v.k != kNone {
		return v, refuse("tools in a message")
	}
	if p.m.dialect.prefix {
		v, err := want(o, "prefix", kBool)
		if err != nil {
			return v, err
		}
		if v.k != kNone {
			pairs = append(pairs, strValue("prefix"), v)
		}
	}
	if last {
		pairs = append(pairs, strValue("content"), content)
	}
	return newDict(p.s, pairs...), nil
}

// content is process_content_for_template_format and normalize_tool_content, for text alone. last
// means that the field comes behind all others, as SGLang does with lists where the template takes
// lists.
func (p *preparation) content(o *object, role string) (content value, last bool, err error) {
	v, ok := o.get("content")
	switch {
	case !ok || v.k == kNone:
		return noneValue, false, nil
	case v.k == kString:
		return v, false, nil
	case v.k != kList:
		return v, false, refuse("content that is neither text nor a list")
	}
	last = p.m.format == formatOpenAI
	texts := make([]string, 0, 2*len(v.o.items))
	size := 0
	for i, part := range v.o.items {
		if part.k != kDict {
			return v, false, refuse("a part of a content that is not an object")
		}
		kind, _ := part.o.get("type")
		text, _ := part.o.get("text")
		if kind.k != kString || kind.s != "text" || text.k != kString {
			return v, false, refuse("a part of a content that is not text")
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
	return v, last, p.s.err
}

// calls is the field tool_calls: ToolCall of protocol.py. Its fields stay where they are None,
// with arguments parsed for assistants.
func (p *preparation) calls(o *object, role string) (value, error) {
	v, err := want(o, "tool_calls", kList)
	if err != nil || v.k == kNone {
		return v, err
	}
	for i, call := range v.o.items {
		if call.k != kDict {
			return v, refuse("a tool call that is not an object")
		}
		if v.o.items[i], err = p.call(call.o, role); err != nil {
			return v, err
		}
	}
	return v, nil
}

// call is one entry of tool_calls. Arguments that are no JSON object are refused by the worker, so
// they are not rendered.
func (p *preparation) call(o *object, role string) (value, error) {
	id, err := want(o, "id", kString)
	if err != nil {
		return id, err
	}
	index, err := want(o, "index", kInt)
	if err != nil {
		return index, err
	}
	if kind, ok := o.get("type"); ok && (kind.k != kString || kind.s != "function") {
		return kind, refuse("a tool call of another type")
	}
	f, ok := o.get("function")
	if !ok || f.k != kDict {
		return f, refuse("a tool call without a function")
	}
	name, err := want(f.o, "name", kString)
	if err != nil {
		return name, err
	}
	arguments, ok := f.o.get("arguments")
	switch {
	case !ok:
		arguments = noneValue
	case arguments.k == kString && role == "assistant":
		if arguments, err = decodeJSON(p.s, bytesOf(arguments.s), true); err != nil {
			return arguments, err
		}
		if arguments.k != kDict {
			return arguments, refuse("arguments that are not an object")
		}
	case arguments.k != kString && arguments.k != kDict && arguments.k != kNone:
		return arguments, refuse("arguments that are neither text nor an object")
	}
	function := newDict(p.s, strValue("name"), name, strValue("arguments"), arguments)
	return newDict(p.s, strValue("id"), id, strValue("index"), index, strValue("type"), strValue("function"), strValue("function"), function), nil
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
