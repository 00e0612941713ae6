package store

import (
	"encoding/json"
	"fmt"

	"github.com/valyala/fasthttp"
)

func (f *prefetcher) handle(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		ctx.Response.Header.Set("Allow", "POST")
		ctx.Error("POST a hint: {\"model\": …, \"input_ids\": […]}\n", fasthttp.StatusMethodNotAllowed)
		return
	}
	var h Hint
	err := json.Unmarshal(ctx.PostBody(), &h)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrHint, err)
	}
	var e Expected
	if err == nil {
		e, err = f.prefetch(h)
	}
	if err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusBadRequest)
		return
	}
	answerJSON(ctx, e)
}

func answerJSON(ctx *fasthttp.RequestCtx, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(text, '\n'))
}
