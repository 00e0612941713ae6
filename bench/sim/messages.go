package sim

import (
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// messagesJob reads a body of /v1/messages: as in SGLang, it becomes a chat.
func (b *jobReader) messagesJob(ctx *fasthttp.RequestCtx) (*job, error) {
	chat, err := chatOfMessages(ctx.PostBody(), true)
	if err != nil {
		return nil, err
	}
	o, err := parseObject(chat)
	if err != nil {
		return nil, err
	}
	j, err := b.openAIJob(o, ctx)
	if err != nil {
		return nil, err
	}
	prompt, err := chatPrompt(o)
	if err != nil {
		return nil, err
	}
	p, err := parseSampling(o)
	if err != nil {
		return nil, err
	}
	if p.max, err = o.number("max_tokens", -1); err != nil {
		return nil, err
	}
	if limit := b.cfg.ContextLength; p.max > limit {
		return nil, refused("max_completion_tokens is too large: %d."+
			"This model supports at most %d completion tokens.", p.max, limit)
	}
	j.n = p.n
	return j, b.finishOpenAI(j, o, [][]uint32{prompt}, p)
}

// countTokens serves /v1/messages/count_tokens.
func (a *tokenAPI) countTokens(ctx *fasthttp.RequestCtx) {
	chat, err := chatOfMessages(ctx.PostBody(), false)
	var o object
	var text []byte
	if err == nil {
		o, err = parseObject(chat)
	}
	if err == nil {
		text, err = renderChat(o)
	}
	if err != nil {
		asProblem(err).anthropic(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, append(appendInt([]byte(`{"input_tokens":`), len(encode(text))), '}'))
}

// chatOfMessages is _convert_to_chat_completion_request of SGLang 0.5.23
// (srt/entrypoints/anthropic/serving.py), for a template that takes one system message and drops
// the thinking of earlier turns. generates is false for count_tokens.
func chatOfMessages(body []byte, generates bool) ([]byte, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil, errJSON
	}
	if generates && v.GetInt("max_tokens") <= 0 {
		return nil, invalid("value_error", "max_tokens", "Value error, max_tokens must be positive")
	}
	if len(v.GetStringBytes("model")) == 0 {
		return nil, invalid("missing", "model", "Field required")
	}
	if v.Get("messages") == nil || v.Get("messages").Type() != fastjson.TypeArray {
		return nil, invalid("missing", "messages", "Field required")
	}
	var a fastjson.Arena
	c := chatMaker{a: &a, list: a.NewArray()}
	c.system(v)
	for _, m := range v.GetArray("messages") {
		if err := c.message(m); err != nil {
			return nil, err
		}
	}
	out := a.NewObject()
	out.Set("messages", c.list)
	if tools := c.tools(v.GetArray("tools")); tools != nil {
		out.Set("tools", tools)
	}
	for to, from := range map[string]string{
		"model": "model", "max_tokens": "max_tokens", "stream": "stream", "stop": "stop_sequences",
		"bootstrap_host": "bootstrap_host", "bootstrap_port": "bootstrap_port", "bootstrap_room": "bootstrap_room",
		"routed_dp_rank": "routed_dp_rank", "disagg_prefill_dp_rank": "disagg_prefill_dp_rank",
	} {
		if f := v.Get(from); f != nil {
			out.Set(to, f)
		}
	}
	return out.MarshalTo(nil), nil
}

// chatMaker makes the messages of a chat.
type chatMaker struct {
	a    *fastjson.Arena
	list *fastjson.Value
}

// add appends a message to the chat.
func (c *chatMaker) add(role string, content *fastjson.Value) *fastjson.Value {
	m := c.a.NewObject()
	m.Set("role", c.a.NewString(role))
	if content != nil {
		m.Set("content", content)
	}
	c.list.SetArrayItem(len(c.list.GetArray()), m)
	return m
}

// system makes one message of the system prompt and of system messages behind it.
func (c *chatMaker) system(v *fastjson.Value) {
	var texts []string
	if s := v.Get("system"); s != nil && s.Type() == fastjson.TypeString {
		if text := string(s.GetStringBytes()); strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	for _, block := range v.GetArray("system") {
		if text := string(block.GetStringBytes("text")); text != "" {
			texts = append(texts, text)
		}
	}
	for _, m := range v.GetArray("messages") {
		if string(m.GetStringBytes("role")) != "system" {
			continue
		}
		var inner []string
		for _, text := range append([]string{string(m.GetStringBytes("content"))}, textsOf(m.GetArray("content"))...) {
			if text = strings.TrimSpace(text); text != "" {
				inner = append(inner, text)
			}
		}
		if len(inner) > 0 {
			texts = append(texts, strings.Join(inner, "\n"))
		}
	}
	if len(texts) > 0 {
		c.add("system", c.a.NewString(strings.Join(texts, "\n")))
	}
}

// textsOf returns the texts of a list of blocks.
func textsOf(blocks []*fastjson.Value) (texts []string) {
	for _, b := range blocks {
		if string(b.GetStringBytes("type")) == "text" {
			texts = append(texts, string(b.GetStringBytes("text")))
		}
	}
	return texts
}

// message appends the messages that one becomes.
func (c *chatMaker) message(m *fastjson.Value) error {
	role, content := string(m.GetStringBytes("role")), m.Get("content")
	switch {
	case role == "system":
		return nil
	case role != "user" && role != "assistant":
		return invalid("literal_error", "messages", "Input should be 'user', 'assistant' or 'system'")
	case content == nil || content.Type() != fastjson.TypeString && content.Type() != fastjson.TypeArray:
		return invalid("string_type", "messages", "Input should be a valid string")
	case content.Type() == fastjson.TypeString:
		c.add(role, content)
		return nil
	}
	parts, calls := c.a.NewArray(), c.a.NewArray()
	for _, b := range content.GetArray() {
		switch kind := string(b.GetStringBytes("type")); kind {
		case "text", "image":
			parts.SetArrayItem(len(parts.GetArray()), c.part(b, kind))
		case "tool_use":
			calls.SetArrayItem(len(calls.GetArray()), c.call(b))
		case "tool_result":
			if len(parts.GetArray()) > 0 {
				c.add(role, c.content(parts))
				parts = c.a.NewArray()
			}
			c.result(b)
		case "thinking":
		default:
			return invalid("union_tag_invalid", "messages", "Input tag '"+kind+"' found using 'type' does not match any of the expected tags")
		}
	}
	switch {
	case len(calls.GetArray()) > 0:
		var text *fastjson.Value
		if len(parts.GetArray()) > 0 {
			text = c.content(parts)
		}
		c.add(role, text).Set("tool_calls", calls)
	case len(parts.GetArray()) > 0:
		c.add(role, c.content(parts))
	case role == "assistant":
		c.add(role, c.a.NewString(""))
	}
	return nil
}

func (c *chatMaker) part(b *fastjson.Value, kind string) *fastjson.Value {
	p := c.a.NewObject()
	if kind == "image" {
		p.Set("type", c.a.NewString("image_url"))
		return p
	}
	p.Set("type", c.a.NewString("text"))
	p.Set("text", c.a.NewStringBytes(b.GetStringBytes("text")))
	return p
}

// content returns the parts, or the one text.
func (c *chatMaker) content(parts *fastjson.Value) *fastjson.Value {
	if list := parts.GetArray(); len(list) == 1 && list[0].Get("text") != nil {
		return list[0].Get("text")
	}
	return parts
}

func (c *chatMaker) call(b *fastjson.Value) *fastjson.Value {
	call, f := c.a.NewObject(), c.a.NewObject()
	f.Set("name", c.a.NewStringBytes(b.GetStringBytes("name")))
	arguments := []byte("{}")
	if input := b.Get("input"); input != nil {
		arguments = input.MarshalTo(nil)
	}
	f.Set("arguments", c.a.NewStringBytes(arguments))
	call.Set("type", c.a.NewString("function"))
	call.Set("function", f)
	return call
}

// result appends the message of a tool's result.
func (c *chatMaker) result(b *fastjson.Value) {
	content := b.Get("content")
	switch {
	case content != nil && content.Type() == fastjson.TypeString:
		c.add("tool", content)
		return
	case content == nil || content.Type() != fastjson.TypeArray:
		c.add("tool", c.a.NewString(""))
		return
	}
	parts := c.a.NewArray()
	for _, item := range content.GetArray() {
		if kind := string(item.GetStringBytes("type")); kind == "image" || kind == "text" && len(item.GetStringBytes("text")) > 0 {
			parts.SetArrayItem(len(parts.GetArray()), c.part(item, kind))
		}
	}
	if len(parts.GetArray()) == 0 {
		c.add("tool", c.a.NewString(""))
		return
	}
	c.add("tool", c.content(parts))
}

// tools converts the tools that are not Anthropic's own; nil where none are left.
func (c *chatMaker) tools(list []*fastjson.Value) *fastjson.Value {
	out := c.a.NewArray()
	for _, t := range list {
		schema := t.Get("input_schema")
		if schema == nil {
			continue
		}
		if schema.Get("type") == nil {
			schema.Set("type", c.a.NewString("object"))
		}
		f, tool := c.a.NewObject(), c.a.NewObject()
		f.Set("name", t.Get("name"))
		f.Set("description", c.a.NewStringBytes(t.GetStringBytes("description")))
		f.Set("parameters", schema)
		f.Set("strict", c.a.NewFalse())
		if t.GetBool("strict") {
			f.Set("strict", c.a.NewTrue())
		}
		tool.Set("type", c.a.NewString("function"))
		tool.Set("function", f)
		out.SetArrayItem(len(out.GetArray()), tool)
	}
	if len(out.GetArray()) == 0 {
		return nil
	}
	return out
}
