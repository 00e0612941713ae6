package chattemplate

import (
	"bytes"
	"fmt"
	"slices"
)

// This file, preparemessages.go and preparetools.go change a request as SGLang does between its
// HTTP handler and apply_chat_template: pydantic models of srt/entrypoints/openai/protocol.py, and
// _process_messages and _apply_jinja_template of serving_chat.py. The sources of 0.5.8 to 0.5.23
// were compared; engine.go has the table of differences. Requests that pydantic would convert or
// refuse are left to the worker.

type preparation struct {
	m      *Model
	s      *state
	req    Request
	effort value // of the variable reasoning_effort; missing if it is not set
	vars   variables
	begun  string // of a continued message, the text; the template does not get the message
}

// variables are the names and values that a request adds to the template's input.
type variables struct {
	names  []string
	values []value
}

// set gives a variable its value; without overwrite only if it has none.
func (vs *variables) set(name string, v value, overwrite bool) {
	at := slices.Index(vs.names, name)
	switch {
	case at < 0:
		vs.names, vs.values = append(vs.names, name), append(vs.values, v)
	case overwrite:
		vs.values[at] = v
	}
}

// get returns the value of a variable; a missing one is None.
func (vs *variables) get(name string) value {
	if at := slices.Index(vs.names, name); at >= 0 {
		return vs.values[at]
	}
	return noneValue
}

func (vs *variables) remove(name string) {
	if at := slices.Index(vs.names, name); at >= 0 {
		vs.names, vs.values = slices.Delete(vs.names, at, at+1), slices.Delete(vs.values, at, at+1)
	}
}

// emptied returns the memory of vs without the values of a request.
func (vs *variables) emptied() variables {
	clear(vs.names)
	clear(vs.values)
	return variables{vs.names[:0], vs.values[:0]}
}

// refuse leaves the request to the worker.
func (p *preparation) refuse(format string, args ...any) value {
	return p.s.unsupported(fmt.Sprintf(format, args...))
}

// sent reports whether a field was sent with a value.
func sent(raw []byte) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// read makes the template's input of the request, unless it leaves an error in the state.
func (p *preparation) read() (messages, tools value) {
	switch {
	case sent(p.req.InputIDs):
		p.refuse("the request brings its own input_ids")
	case sent(p.req.Reasoning):
		p.refuse("the field reasoning")
	case sent(p.req.Continue) && !p.continues() && !bytes.Equal(p.req.Continue, []byte("false")):
		p.refuse("a continue_final_message that is no bool")
	case p.continues() && slices.Contains(openers, p.m.reasoning):
		p.refuse("continue_final_message with the reasoning parser %s", p.m.reasoning)
	}
	if p.s.err == nil {
		messages = p.messages()
	}
	if p.s.err == nil {
		tools = p.tools()
	}
	if p.s.err == nil {
		p.kwargs()
	}
	return messages, tools
}

// openers are reasoning parsers of 0.5.23 that open the answer in front of a continued message.
var openers = []string{"response_template", "beam"}

// continues reports whether the answer continues the last message.
func (p *preparation) continues() bool { return string(p.req.Continue) == "true" }

// kwargs collects the template's variables: chat_template_kwargs, the server's defaults, and those
// that reasoning_effort sets.
func (p *preparation) kwargs() {
	if sent(p.req.Kwargs) {
		p.addAll(decodeJSON(p.s, p.req.Kwargs, true), true)
	}
	p.readEffort()
	// _convert_to_internal_request: the effort among the kwargs wins over the field.
	if v := p.vars.get("reasoning_effort"); v.k != kNone {
		p.effort = v
	}
	p.vars.remove("reasoning_effort")
	if p.m.defaults != nil {
		p.addAll(decodeJSON(p.s, p.m.defaults, false), false)
		if v := p.vars.get("reasoning_effort"); v.k != kNone && p.effort.k == kMissing {
			p.effort = v
		}
	}
	for i, name := range p.vars.names {
		p.checkKwarg(name, p.vars.values[i])
	}
	if p.m.lowFlag && p.effort.k == kString && p.effort.s == "low" {
		p.vars.set("low_effort", boolValue(true), false)
	}
}

func (p *preparation) addAll(v value, overwrite bool) {
	if v.k != kDict {
		p.refuse("template kwargs that are not an object")
		return
	}
	for i, k := range v.o.keys {
		p.vars.set(k.s, v.o.items[i], overwrite)
	}
}

// readEffort reads the field reasoning_effort and sets the variables that depend on it
// (normalize_reasoning_inputs).
func (p *preparation) readEffort() {
	if !sent(p.req.ReasoningEffort) {
		return
	}
	v := decodeJSON(p.s, p.req.ReasoningEffort, true)
	if v.k != kString || !slices.Contains(p.m.dialect.efforts, v.s) {
		p.refuse("an unknown reasoning_effort")
		return
	}
	p.effort = v
	if p.m.dialect.effortThinks || v.s == "none" {
		thinking := boolValue(v.s != "none")
		p.vars.set("thinking", thinking, false)
		p.vars.set("enable_thinking", thinking, false)
	}
}

// reserved are parameters of apply_chat_template and of its callees: as kwargs they do not reach
// the template, or end in an error.
var reserved = []string{
	"conversation", "conversations", "messages", "tools", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize",
	"padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs", "self",
}

// checkKwarg refuses kwargs that are more than variables of the template.
func (p *preparation) checkKwarg(name string, v value) {
	switch {
	case slices.Contains(reserved, name):
		p.refuse("the template kwarg %s", name)
	case name != "documents" || v.k == kNone:
	case v.k != kList || slices.ContainsFunc(v.o.items, func(document value) bool { return document.k != kDict }):
		p.refuse("documents that are not a list of objects")
	}
}

// want reads a field of an object from a client: null and absent are None. Of another kind than k
// it is refused.
func (p *preparation) want(o *object, name string, k kind) value {
	v, ok := o.get(name)
	switch {
	case !ok || v.k == kNone:
		return noneValue
	case v.k != k:
		return p.refuse("%s is %s instead of %s", name, v.typeName(), value{k: k}.typeName())
	}
	return v
}

// attempt renders with the given tools.
func (p *preparation) attempt(messages, tools value) error {
	s := p.s
	setGlobals(s)
	s.set("messages", messages)
	s.set("tools", tools)
	s.set("documents", noneValue)
	s.set("add_generation_prompt", boolValue(true))
	for _, t := range p.m.tokens {
		s.set(t.name, strValue(t.text))
	}
	if p.effort.k != kMissing {
		s.set("reasoning_effort", p.effort)
	}
	for i, k := range p.vars.names {
		s.set(k, p.vars.values[i])
	}
	return s.render()
}
