package admin

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request"
)

// responder answers requests. The request path counts errors and compresses answers.
type responder struct{ requests *request.Handler }

// json answers with v as JSON.
func (r responder) json(ctx *fasthttp.RequestCtx, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		r.fail(ctx, openai.Internal("The answer cannot be written as JSON."))
		return
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(append(body, '\n'))
	r.requests.Compress(ctx)
}

// fail answers with an error.
func (r responder) fail(ctx *fasthttp.RequestCtx, e *openai.Error) { r.requests.Fail(ctx, e) }

// wrongMethod answers a request with another method than those of allow.
func (r responder) wrongMethod(ctx *fasthttp.RequestCtx, allow string) {
	r.requests.WrongMethod(ctx, allow)
}
