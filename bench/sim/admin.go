package sim

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// adminAPI serves the endpoints by which operators and routers act on the engine.
type adminAPI struct {
	*process
	ranks   []*rank
	jobs    *jobReader
	answers *answerer
	loaded  *atomic.Pointer[modelWeights]
}

// health serves /health and /health_generate by generating one token, so it is as slow as the
// worker is busy.
func (a *adminAPI) health(ctx *fasthttp.RequestCtx) {
	j := &job{id: newID(), born: time.Now(), n: 1, whole: true}
	if err := a.jobs.build(j, [][]uint32{{tokenBOS}}, nil, domain{}, []sampling{{max: 1, n: 1, stop: stopRules{ignoreEOS: true}}}); err != nil {
		asProblem(err).native(ctx)
		return
	}
	a.answers.submit(j, false)
	defer a.answers.done(j)
	if _, ok := a.answers.wait(j, j.reqs[0]); !ok {
		ctx.SetConnectionClose()
	}
}

// abortRequest serves /abort_request. An unknown id is ignored; a known one aborts every
// request with that prefix.
func (a *adminAPI) abortRequest(ctx *fasthttp.RequestCtx) {
	o := parseObject(ctx.PostBody())
	id, all := o.text("rid", ""), o.flag("abort_all")
	if o.err != nil {
		asProblem(o.err).openAI(ctx)
		return
	}
	if !all && !a.answers.active.has(id) {
		return
	}
	for _, k := range a.ranks {
		k.abort(id, all)
	}
}

// flushCache serves /flush_cache, which only works on an idle worker.
func (a *adminAPI) flushCache(ctx *fasthttp.RequestCtx) {
	flushed := true
	for _, k := range a.ranks {
		done := make(chan bool, 1)
		k.flush(done)
		select {
		case ok := <-done:
			flushed = flushed && ok
		case <-a.ctx.Done():
			ctx.SetConnectionClose()
			return
		}
	}
	if !flushed {
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
		ctx.SetBodyString("Flush cache failed.\n")
		return
	}
	ctx.SetBodyString("Cache flushed.\nPlease check backend logs for more details. " +
		"(When there are running or waiting requests, the operation will not be performed.)\n")
}

// fault serves POST /sim/fault, which SGLang does not have: {"kind", "count", "seconds",
// "factor", "lost", "status", "every"}, see [Faults.Apply].
func (a *adminAPI) fault(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*conn); ok {
		c.surviveCrash()
		ctx.SetConnectionClose()
	}
	var f Fault
	err := json.Unmarshal(ctx.PostBody(), &f)
	if err == nil {
		err = a.faults.Apply(f)
	}
	if err != nil {
		p := asProblem(err)
		p.status = fasthttp.StatusBadRequest
		p.openAI(ctx)
		return
	}
	writeJSON(ctx, fasthttp.StatusOK, []byte(`{"success":true}`))
}
