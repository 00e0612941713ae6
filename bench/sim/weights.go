package sim

import (
	"time"

	"github.com/valyala/fasthttp"
)

// weights are what an engine has loaded.
type weights struct {
	name    string // in /v1/models; requests may name any model
	path    string
	version string
}

// updateWeights serves /update_weights_from_disk as SGLang 0.5.23 does: it waits for the requests under way, empties the cache
// unless told not to, and shows the path as the model's name from then on. /server_info stays as it was.
func (a *adminAPI) updateWeights(ctx *fasthttp.RequestCtx) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	next := *a.loaded.Load()
	if next.path, err = o.text("model_path", ""); err == nil && next.path == "" {
		err = invalid("missing", "model_path", "Field required")
	}
	if err == nil {
		next.version, err = o.text("weight_version", next.version)
	}
	if err != nil {
		asProblem(err).openAI(ctx)
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

// idlePoll is how often a rank is asked whether it is idle.
const idlePoll = 5 * time.Millisecond

// flushed empties a rank's cache as soon as the rank is idle; false means that the worker ended before.
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
