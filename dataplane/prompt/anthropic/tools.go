package anthropic

import (
	"bytes"
	"strings"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// serverTools begin the types of tools that Anthropic's own servers run. SGLang leaves them out.
var serverTools = []string{"web_search_", "computer_", "bash_", "text_editor_"}

type tool struct{ kind, name, description, schema, strict, deferred []byte }

func (w *writer) toolList(list []byte) {
	if list == nil {
		return
	}
	if kind(list) != '[' {
		w.doubt()
		return
	}
	begin := len(w.dst)
	w.name("tools")
	w.dst = append(w.dst, '[')
	objects(w, list, func(at int) int { return w.tool(list, at) })
	if w.dst = append(w.dst, ']'); w.tools == 0 {
		w.dst = w.dst[:begin]
	}
}

func (w *writer) tool(list []byte, at int) (end int) {
	var t tool
	end = openai.Pick(list, at, openai.To("type", &t.kind), openai.To("name", &t.name), openai.To("description", &t.description),
		openai.To("input_schema", &t.schema), openai.To("strict", &t.strict), openai.To("defer_loading", &t.deferred))
	if family := textOf(t.kind); t.kind != nil && family != "custom" {
		for _, begin := range serverTools {
			if strings.HasPrefix(family, begin) {
				return end
			}
		}
		w.doubt() // SGLang refuses it
	}
	if !openai.IsString(t.name) || kind(t.schema) != '{' || t.description != nil && !openai.IsString(t.description) {
		w.doubt()
		return end
	}
	w.comma()
	w.tools++
	if t.description == nil {
		t.description = []byte(`""`)
	}
	if t.strict == nil {
		t.strict = []byte("false")
	}
	w.dst = append(w.dst, `{"type":"function","function":{`...)
	w.member("name", t.name)
	w.member("description", t.description)
	w.name("parameters")
	w.schema(t.schema)
	w.member("strict", t.strict)
	w.dst = append(w.dst, '}')
	w.member("defer_loading", t.deferred)
	w.dst = append(w.dst, '}')
	return end
}

// schema appends a tool's schema, with a type where it has none.
func (w *writer) schema(raw []byte) {
	if _, typed := openai.LastMember(raw, "type"); typed {
		w.dst = append(w.dst, raw...)
		return
	}
	w.dst = append(w.dst, bytes.TrimRight(raw[:len(raw)-1], " \t\r\n")...)
	w.name("type")
	w.dst = append(w.dst, `"object"}`...)
}

func (w *writer) toolChoice(raw []byte) {
	if raw == nil {
		return // "auto" with tools, which is the default of chats
	}
	if kind(raw) != '{' {
		w.doubt()
		return
	}
	way := textOf(openai.Member(raw, "type"))
	choice := ""
	switch {
	case way == "none":
		choice = `"none"`
	case w.tools == 0:
		if way != "auto" {
			w.doubt() // SGLang refuses a choice without tools
		}
	case way == "auto":
		choice = `"auto"`
	case way == "any":
		choice = `"required"`
	case way == "tool" && openai.IsString(openai.Member(raw, "name")):
		choice = `{"type":"function","function":{"name":` + string(openai.Member(raw, "name")) + `}}`
	default:
		w.doubt()
	}
	if choice != "" {
		w.member("tool_choice", []byte(choice))
	}
	if alone := openai.Member(raw, "disable_parallel_tool_use"); kind(alone) == 't' {
		w.member("parallel_tool_calls", []byte("false"))
	}
}

// templateKwargs appends the variables of the template that thinking and output_config set. The
// effort goes there because SGLang sets it after its own checks of chats, which would also switch
// thinking.
func (w *writer) templateKwargs(thinking, config []byte) {
	var kwargs []byte
	set := func(name, value string) {
		if kwargs == nil {
			kwargs = append(kwargs, '{')
		}
		kwargs = append(openai.AppendName(kwargs, name), value...)
	}
	effort := textOf(openai.Member(config, "effort"))
	if effort == "xhigh" {
		effort = "max"
	}
	w.thinkingSwitch(thinking, set, &effort)
	if effort != "" {
		set("reasoning_effort", string(openai.AppendString(nil, effort)))
	}
	if kwargs != nil {
		w.member("chat_template_kwargs", append(kwargs, '}'))
	}
	if schema := openai.Member(openai.Member(config, "format"), "schema"); schema != nil {
		w.name("response_format")
		w.dst = append(w.dst, `{"type":"json_schema","json_schema":{"name":"response","strict":true,"schema":`...)
		w.dst = append(append(w.dst, schema...), `}}`...)
	}
}

// thinkingSwitch sets the variable that switches reasoning (apply_reasoning_enabled).
func (w *writer) thinkingSwitch(thinking []byte, set func(name, value string), effort *string) {
	if thinking == nil {
		return
	}
	way := textOf(openai.Member(thinking, "type"))
	on := way != "disabled"
	if on && way != "enabled" && way != "adaptive" || !w.rules.Known {
		w.doubt()
		return
	}
	if w.rules.Parser == "" {
		if on {
			w.doubt() // SGLang refuses it
		}
		return
	}
	how := w.rules.Thinking
	switch {
	case how.Kwarg != "" && on:
		set(how.Kwarg, "true")
	case how.Kwarg != "":
		set(how.Kwarg, "false")
	case how.Always && on:
	case how.Effort && *effort != "":
	case how.Effort && on:
		*effort = "medium"
	case how.Effort:
		*effort = "none"
	default:
		w.doubt()
	}
}
