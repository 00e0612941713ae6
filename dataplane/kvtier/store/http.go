package store

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

func (f *prefetcher) handle(ctx *fasthttp.RequestCtx) {
	const want = "POST a hint: {\"model\": …, \"input_ids\": […]}\n"
	if !ctx.IsPost() {
		ctx.Response.Header.Set("Allow", "POST")
		ctx.Error(want, fasthttp.StatusMethodNotAllowed)
		return
	}
	var h Hint
	if json.Unmarshal(ctx.PostBody(), &h) != nil || len(h.InputIDs) == 0 {
		ctx.Error(want, fasthttp.StatusBadRequest)
		return
	}
	e, _ := f.pull(&hint.Message{Model: []byte(h.Model), Salt: []byte(h.CacheSalt), IDs: proto.TokenBytes(h.InputIDs)})
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
