package sim

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// tokenAPI serves the tokenizer.
type tokenAPI struct{ cfg *Config }

// tokenize serves /v1/tokenize and /tokenize: {prompt} or {messages, tools} in, {tokens, count,
// max_model_len} out. Messages have the tokens of the same chat.
func (a *tokenAPI) tokenize(ctx *fasthttp.RequestCtx) {
	b, err := a.tokenized(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, b)
}

func (a *tokenAPI) tokenized(body []byte) ([]byte, error) {
	o := parseObject(body)
	if o.err != nil {
		return nil, o.err
	}
	if (o.raw("prompt") == nil) == (o.raw("messages") == nil) {
		return nil, invalid("value_error", "", "Value error, Exactly one of 'prompt' or 'messages' must be provided.")
	}
	if o.raw("messages") != nil {
		return a.appendTokenized(nil, [][]uint32{encode(renderChat(o))}, false), o.err
	}
	return a.appendTokenized(nil, o.prompts("prompt"), o.raw("prompt")[0] == '['), o.err
}

func (a *tokenAPI) appendTokenized(dst []byte, lists [][]uint32, nested bool) []byte {
	var tokens, counts []byte
	for i, ids := range lists {
		if i > 0 {
			tokens, counts = append(tokens, ','), append(counts, ',')
		}
		tokens, counts = appendIDs(tokens, ids), appendInt(counts, len(ids))
	}
	if nested {
		tokens = append(append([]byte{'['}, tokens...), ']')
		counts = append(append([]byte{'['}, counts...), ']')
	}
	dst = append(append(dst, `{"tokens":`...), tokens...)
	dst = append(append(dst, `,"count":`...), counts...)
	dst = append(dst, `,"max_model_len":`...)
	return append(appendInt(dst, a.cfg.ContextLength), '}')
}

// detokenize serves /v1/detokenize: {tokens}, one list or several, in, {text} out. Special
// tokens are omitted unless skip_special_tokens is false.
func (a *tokenAPI) detokenize(ctx *fasthttp.RequestCtx) {
	b, err := detokenized(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, b)
}

func detokenized(body []byte) ([]byte, error) {
	o := parseObject(body)
	raw := o.raw("tokens")
	switch {
	case o.err != nil:
		return nil, o.err
	case raw == nil:
		return nil, invalid("missing", "tokens", "Field required")
	case raw[0] != '[':
		return nil, invalid("list_type", "tokens", "Input should be a valid list")
	}
	lists, nested := o.idLists("tokens")
	b := []byte(`{"text":`)
	if nested {
		b = append(b, '[')
	}
	for i, ids := range lists {
		if i > 0 {
			b = append(b, ',')
		}
		text := string(decoded(ids))
		if string(o.raw("skip_special_tokens")) != "false" {
			text = withoutSpecials(text)
		}
		b = appendJSONString(b, text)
	}
	if nested {
		b = append(b, ']')
	}
	return append(b, '}'), o.err
}

func withoutSpecials(text string) string {
	for _, s := range specialTokens() {
		text = strings.ReplaceAll(text, s, "")
	}
	return text
}
