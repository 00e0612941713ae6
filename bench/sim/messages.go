package sim

import (
	"slices"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// messagesJob reads a body of /v1/messages: as in SGLang, it becomes a chat.
func (b *jobReader) messagesJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o, err := chatOfMessages(ctx.PostBody(), true)
	if err != nil {
		return nil, err
	}
	j := b.openAIJob(o, ctx)
	prompt := chatPrompt(o)
	p := parseSampling(o)
	p.max = o.number("max_tokens", -1)
	b.checkAnswer(o, p)
	j.n = p.n
	return b.finish(j, o, [][]uint32{prompt}, p)
}

// countTokens serves /v1/messages/count_tokens.
func (a *tokenAPI) countTokens(ctx *fasthttp.RequestCtx) {
	o, err := chatOfMessages(ctx.PostBody(), false)
	var text []byte
	if err == nil {
		text = renderChat(o)
		err = o.err
	}
	if err != nil {
		asProblem(err).anthropic(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, append(appendInt([]byte(`{"input_tokens":`), len(encode(text))), '}'))
}

// pairFields are the members of a body that are for one half of a pair, or for a rank.
var pairFields = []string{"bootstrap_host", "bootstrap_port", "bootstrap_room", "routed_dp_rank", "disagg_prefill_dp_rank"}

// adopt adds members of another object.
func (o *object) adopt(from *object, keys ...string) {
	for _, f := range from.fields {
		if slices.Contains(keys, string(f.key)) {
			o.fields = append(o.fields, f)
		}
	}
}

// blockKinds are the kinds of content blocks that are taken.
var blockKinds = []string{"text", "image", "tool_use", "tool_result", "thinking"}

// chatOfMessages is the chat of a body, for a template that takes one system message and drops the
// thinking of earlier turns. generates is false for count_tokens.
func chatOfMessages(body []byte, generates bool) (*object, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil, errJSON
	}
	switch {
	case generates && v.GetInt("max_tokens") <= 0:
		return nil, invalid("value_error", "max_tokens", "Value error, max_tokens must be positive")
	case len(v.GetStringBytes("model")) == 0:
		return nil, invalid("missing", "model", "Field required")
	case v.Get("messages") == nil || v.Get("messages").Type() != fastjson.TypeArray:
		return nil, invalid("missing", "messages", "Field required")
	}
	for _, m := range v.GetArray("messages") {
		if !slices.Contains([]string{"user", "assistant", "system"}, string(m.GetStringBytes("role"))) {
			return nil, invalid("literal_error", "messages", "Input should be 'user', 'assistant' or 'system'")
		}
		for _, b := range m.GetArray("content") {
			if kind := string(b.GetStringBytes("type")); !slices.Contains(blockKinds, kind) {
				return nil, invalid("union_tag_invalid", "messages", "Input tag '"+kind+"' found using 'type' does not match any of the expected tags")
			}
		}
	}
	chat, _, err := anthropic.AppendChat(nil, body, func(string) chattemplate.Rules { return chattemplate.Rules{Known: true} })
	if err != nil {
		return nil, errJSON
	}
	o := parseObject(chat)
	o.adopt(parseObject(body), pairFields...)
	return o, o.err
}
