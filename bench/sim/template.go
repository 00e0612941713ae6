package sim

import (
	"slices"

	"github.com/valyala/fastjson"
)

// renderChat applies the simulated model's chat template to a body's messages: each message is
// "<|im_start|>role\ncontent<|im_end|>\n", and the assistant's turn is opened. Tools come
// first, and so in the shared prefix, as in the templates of real models.
func renderChat(o *object) (text []byte) {
	v := o.value("messages")
	if v == nil || v.Type() != fastjson.TypeArray {
		o.fail(invalid("list_type", "messages", "Input should be a valid list"))
		return nil
	}
	messages := v.GetArray()
	if len(messages) == 0 {
		o.fail(refused("Messages cannot be empty."))
	}
	if tools := o.value("tools"); len(tools.GetArray()) > 0 {
		text = appendTurn(text, []byte("tools"), tools.MarshalTo(nil))
	}
	for _, m := range messages {
		role := m.GetStringBytes("role")
		if !slices.Contains([]string{"system", "user", "assistant", "tool", "function", "developer"}, string(role)) {
			o.fail(invalid("literal_error", "messages", "role must be one of system, user, assistant, tool"))
		}
		content, err := contentOf(m.Get("content"))
		o.fail(err)
		text = appendTurn(text, role, appendCalls(content, m.GetArray("tool_calls")))
	}
	if string(o.raw("add_generation_prompt")) == "false" {
		return text
	}
	return append(text, "<|im_start|>assistant\n"...)
}

// appendCalls appends the tool calls of a message to its content.
func appendCalls(content []byte, calls []*fastjson.Value) []byte {
	if len(calls) == 0 {
		return content
	}
	out := append([]byte(nil), content...)
	for _, call := range calls {
		out = append(append(out, "\n<tool_call>\n"...), call.GetStringBytes("function", "name")...)
		out = append(out, ' ')
		arguments := call.Get("function", "arguments")
		if text, err := arguments.StringBytes(); err == nil {
			parsed, err := fastjson.ParseBytes(text)
			if err != nil {
				continue
			}
			arguments = parsed
		}
		out = arguments.MarshalTo(out)
	}
	return out
}

func appendTurn(dst, role, content []byte) []byte {
	dst = append(dst, "<|im_start|>"...)
	dst = append(append(dst, role...), '\n')
	dst = append(dst, content...)
	return append(dst, "<|im_end|>\n"...)
}

// contentOf returns the text of a message: a string, or text parts, which SGLang joins with
// spaces.
func contentOf(v *fastjson.Value) ([]byte, error) {
	if v == nil || v.Type() == fastjson.TypeNull {
		return nil, nil
	}
	if s, err := v.StringBytes(); err == nil {
		return s, nil
	}
	parts, err := v.Array()
	if err != nil {
		return nil, invalid("string_type", "messages", "Input should be a valid string")
	}
	var text []byte
	for _, p := range parts {
		if string(p.GetStringBytes("type")) != "text" {
			continue
		}
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = append(text, p.GetStringBytes("text")...)
	}
	return text, nil
}
