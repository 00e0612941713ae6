package sim

import (
	"strings"

	"github.com/valyala/fastjson"
)

// itemReader makes the messages of a chat of items.
type itemReader struct {
	chatMaker
	systems []string
}

// item adds the message of an item (_normalize_response_message_for_chat).
func (c *itemReader) item(v *fastjson.Value) error {
	content := v.Get("content")
	text := func() *fastjson.Value {
		if content == nil || content.Type() == fastjson.TypeString {
			return content
		}
		return c.a.NewString(strings.Join(itemTexts(content.GetArray()), " "))
	}
	switch kind, role := string(v.GetStringBytes("type")), string(v.GetStringBytes("role")); {
	case kind == "function_call":
		arguments := string(v.GetStringBytes("arguments"))
		if p, err := fastjson.Parse(arguments); err != nil || p.Type() != fastjson.TypeObject {
			arguments = "{}"
		}
		c.assistant(nil, "tool_calls", c.oneCall(v, arguments))
	case kind == "custom_tool_call":
		o := c.a.NewObject()
		o.Set("input", c.a.NewStringBytes(v.GetStringBytes("input")))
		c.assistant(nil, "tool_calls", c.oneCall(v, o.String()))
	case kind == "function_call_output", kind == "custom_tool_call_output":
		output := v.Get("output")
		if output != nil && output.Type() == fastjson.TypeArray {
			output = c.a.NewString(strings.Join(itemTexts(output.GetArray()), ""))
		}
		c.add("tool", output)
	case kind == "reasoning":
		texts := itemTexts(v.GetArray("summary"))
		if len(texts) == 0 {
			texts = itemTexts(v.GetArray("content"))
		}
		if len(texts) > 0 {
			c.assistant(nil, "reasoning_content", c.a.NewString(strings.Join(texts, "\n")))
		}
	case kind != "" && kind != "message":
		return refused("Unsupported Responses API input item type: '%s' None", kind)
	case role == "developer" || role == "system":
		texts := []string{string(content.GetStringBytes())}
		if content != nil && content.Type() == fastjson.TypeArray {
			texts = itemTexts(content.GetArray())
		}
		if role == "developer" && len(texts) > 0 {
			texts[0] = "Developer instructions:\n" + texts[0]
		}
		c.systems = append(c.systems, texts...)
	case role == "assistant":
		c.assistant(v.Get("phase"), "content", text())
	default:
		c.add(role, text())
	}
	return nil
}

// itemTexts returns the texts of parts.
func itemTexts(parts []*fastjson.Value) (texts []string) {
	for _, p := range parts {
		if text := string(p.GetStringBytes("text")); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// oneCall returns a list of one tool call.
func (c *itemReader) oneCall(v *fastjson.Value, arguments string) *fastjson.Value {
	call, f, list := c.a.NewObject(), c.a.NewObject(), c.a.NewArray()
	f.Set("name", c.a.NewStringBytes(v.GetStringBytes("name")))
	f.Set("arguments", c.a.NewString(arguments))
	call.Set("type", c.a.NewString("function"))
	call.Set("function", f)
	list.SetArrayItem(0, call)
	return list
}

// assistant adds a part of an assistant's turn, to the last message where that is the assistant's
// too, and of the same phase or only reasoning (_merge_consecutive_assistant_messages).
func (c *itemReader) assistant(phase *fastjson.Value, name string, value *fastjson.Value) {
	var last *fastjson.Value
	if list := c.list.GetArray(); len(list) > 0 {
		last = list[len(list)-1]
	}
	same := string(last.GetStringBytes("phase")) == string(phase.GetStringBytes())
	if string(last.GetStringBytes("role")) != "assistant" || !same && (last.Get("reasoning_content") == nil || last.GetObject().Len() > 2) {
		last = c.add("assistant", nil)
	}
	if phase != nil {
		last.Set("phase", phase)
	}
	before := last.Get(name)
	switch {
	case before == nil:
		last.Set(name, value)
	case name == "tool_calls":
		before.SetArrayItem(len(before.GetArray()), value.GetArray()[0])
	case name == "content":
		last.Set(name, c.a.NewString(string(before.GetStringBytes())+"\n\n"+string(value.GetStringBytes())))
	default:
		last.Set(name, c.a.NewString(string(before.GetStringBytes())+"\n"+string(value.GetStringBytes())))
	}
}

// responseTools converts functions and custom tools; nil where there are none.
func (c *itemReader) responseTools(list []*fastjson.Value) (*fastjson.Value, error) {
	out := c.a.NewArray()
	for _, t := range list {
		kind := string(t.GetStringBytes("type"))
		if kind == "shell" {
			return nil, &problem{status: 400, param: "tools", message: "Shell tools are not supported by this model"}
		}
		if kind != "function" && kind != "custom" {
			continue
		}
		f, tool := c.a.NewObject(), c.a.NewObject()
		f.Set("name", t.Get("name"))
		f.Set("description", t.Get("description"))
		if f.Set("parameters", t.Get("parameters")); kind == "custom" {
			f.Set("parameters", fastjson.MustParse(`{"type":"object","properties":{"input":{"type":"string",`+
				`"description":"The freeform text payload for this tool."}},"required":["input"],"additionalProperties":false}`))
		}
		f.Set("strict", c.a.NewFalse())
		tool.Set("type", c.a.NewString("function"))
		tool.Set("function", f)
		out.SetArrayItem(len(out.GetArray()), tool)
	}
	if len(out.GetArray()) == 0 {
		return nil, nil //nolint:nilnil // no tools are no error
	}
	return out, nil
}
