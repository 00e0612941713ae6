package sim

import (
	"time"

	"github.com/valyala/fasthttp"
)

// modelWeights are the loaded weights of an engine.
type modelWeights struct {
	name    string // in /v1/models; requests may name any model
	path    string
	version string
}

// updateWeights serves /update_weights_from_disk as SGLang 0.5.23 does: it waits for running
// requests, empties the cache, and serves the path as the model's name from then on.
// /server_info does not change.
func (a *adminAPI) updateWeights(ctx *fasthttp.RequestCtx) {
	o := parseObject(ctx.PostBody())
	next := *a.loaded.Load()
	if next.path = o.text("model_path", ""); next.path == "" {
		o.fail(invalid("missing", "model_path", "Field required"))
	}
	next.version = o.text("weight_version", next.version)
	if o.err != nil {
		asProblem(o.err).openAI(ctx)
		return
	}
	next.name = next.path
	for _, k := range a.ranks {
		if !a.flushed(k) {
			ctx.SetConnectionClose()
			return
		}
	}
	a.loaded.Store(&next)
	writeJSON(ctx, fasthttp.StatusOK, []byte(`{"success":true,"message":"Succeeded to update model weights.","num_paused_requests":0}`))
}

// idlePoll is the interval of the wait for an idle rank.
const idlePoll = 5 * time.Millisecond

// flushed empties a rank's cache as soon as the rank is idle; false if the worker ended first.
func (a *adminAPI) flushed(k *rank) bool {
	for {
		done := make(chan bool, 1)
		k.flush(done)
		select {
		case ok := <-done:
			if ok {
				return true
			}
		case <-a.ctx.Done():
			return false
		}
		select {
		case <-time.After(idlePoll):
		case <-a.ctx.Done():
			return false
		}
	}
}
