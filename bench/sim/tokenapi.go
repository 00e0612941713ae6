package sim

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// tokenAPI serves the tokenizer.
type tokenAPI struct{ cfg *Config }

// tokenize serves /v1/tokenize and /tokenize: {prompt} or {messages, tools} in,
// {tokens, count, max_model_len} out. For messages the tokens are those of the
// same chat.
func (a *tokenAPI) tokenize(ctx *fasthttp.RequestCtx) {
	b, err := a.tokenized(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, b)
}

func (a *tokenAPI) tokenized(body []byte) ([]byte, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if (o.raw("prompt") == nil) == (o.raw("messages") == nil) {
		return nil, invalid("value_error", "", "Value error, Exactly one of 'prompt' or 'messages' must be provided.")
	}
	if o.raw("messages") != nil {
		text, err := render(o)
		if err != nil {
			return nil, err
		}
		return a.appendTokenized(nil, [][]uint32{encode(text)}, false), nil
	}
	texts, err := o.texts("prompt")
	if err != nil {
		return nil, err
	}
	lists := make([][]uint32, 0, len(texts))
	for _, t := range texts {
		lists = append(lists, encode([]byte(t)))
	}
	return a.appendTokenized(nil, lists, o.raw("prompt")[0] == '['), nil
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

// detokenize serves /v1/detokenize: {tokens}, one list or several, in, {text} out.
// Special tokens are left out unless skip_special_tokens is false.
func (a *tokenAPI) detokenize(ctx *fasthttp.RequestCtx) {
	b, err := detokenized(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, b)
}

func detokenized(body []byte) ([]byte, error) {
	o, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	raw := o.raw("tokens")
	if raw == nil {
		return nil, invalid("missing", "tokens", "Field required")
	}
	if raw[0] != '[' {
		return nil, invalid("list_type", "tokens", "Input should be a valid list")
	}
	lists, nested, err := idLists(raw, "tokens")
	if err != nil {
		return nil, err
	}
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
	return append(b, '}'), nil
}

func withoutSpecials(text string) string {
	for _, s := range specials() {
		text = strings.ReplaceAll(text, s, "")
	}
	return text
}
