package sim

import (
	"strconv"
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
func (l *life) updateWeights(ctx *fasthttp.RequestCtx) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	next := *l.weights.Load()
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
	for _, k := range l.ranks {
		if !l.flushed(k) {
			ctx.SetConnectionClose()
			return
		}
	}
	l.weights.Store(&next)
	writeJSON(ctx, fasthttp.StatusOK, []byte(`{"success":true,"message":"Succeeded to update model weights.","num_paused_requests":0}`))
}

// meets notes which model a request is for.
func (l *life) meets(model string) {
	if w := l.weights.Load(); model != "default" && model != l.cfg.Model && model != w.name {
		l.faults.strangers.Add(1)
	}
}

// idlePoll is how often a rank is asked whether it is idle.
const idlePoll = 5 * time.Millisecond

// flushed empties a rank's cache as soon as the rank is idle; false means that the worker ended before.
func (l *life) flushed(k *rank) bool {
	for {
		done := make(chan bool, 1)
		k.flush(done)
		select {
		case ok := <-done:
			if ok {
				return true
			}
		case <-l.ctx.Done():
			return false
		}
		select {
		case <-time.After(idlePoll):
		case <-l.ctx.Done():
			return false
		}
	}
}

// appendStart says what differs between two processes with the same arguments.
func (l *life) appendStart(dst []byte) []byte {
	took := float64(l.born.UnixNano()%int64(time.Minute)) / float64(time.Second)
	dst = append(dst, `,"random_seed":`...)
	dst = strconv.AppendInt(dst, l.seed, 10)
	dst = append(dst, `,"startup_time":{"load_weight":0.5,"kv_cache_allocation":0.25,"scheduler_e2e":1.5,"cuda_graph":{},"tokenizer_e2e":`...)
	return append(strconv.AppendFloat(dst, took, 'f', 9, 64), '}')
}
