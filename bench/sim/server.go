package sim

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// maxBody is the largest request body in bytes. SGLang sets no limit; this one
// only keeps a mistake from eating the memory of all workers of the process.
const maxBody = 256 << 20

// idleWorker is how long fasthttp keeps an idle goroutine, and how long after the end
// of a server its last one ends. Its default of 10 s would let those of crashed
// workers pile up.
const idleWorker = 100 * time.Millisecond

// silent is fasthttp's logger: it speaks of broken connections only, and those are
// what a crash is for.
type silent struct{}

// Printf implements fasthttp.Logger.
func (silent) Printf(string, ...any) {}

// newServer returns the HTTP server of l.
func newServer(l *life) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               l.serve,
		Name:                  "uvicorn",
		MaxRequestBodySize:    maxBody,
		MaxIdleWorkerDuration: idleWorker,
		ReadBufferSize:        16 << 10,
		Logger:                silent{},
	}
}

// requestCounts counts requests by endpoint, for /metrics.
type requestCounts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *requestCounts) add(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]int)
	}
	c.by[endpoint]++
}

// serve answers one request, or hangs with the worker.
func (l *life) serve(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) == "/sim/fault" {
		l.fault(ctx) // also while the worker hangs: how else could it be told not to
		return
	}
	if !l.faults.pass(l.ctx) {
		ctx.SetConnectionClose()
		return
	}
	h, post := l.route(string(ctx.Path()))
	switch {
	case h == nil:
		writeJSON(ctx, fasthttp.StatusNotFound, []byte(`{"detail":"Not Found"}`))
	case !post && !ctx.IsGet() && !ctx.IsHead(), post && !ctx.IsPost() && !ctx.IsPut():
		writeJSON(ctx, fasthttp.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
	default:
		l.served.add(string(ctx.Path()))
		h(ctx)
	}
}

// route finds what serves path, and whether by POST.
func (l *life) route(path string) (h fasthttp.RequestHandler, post bool) {
	switch path {
	case "/generate":
		return l.mortal(l.generate), true
	case "/v1/chat/completions":
		return l.mortal(l.chat), true
	case "/v1/completions":
		return l.mortal(l.completions), true
	case "/v1/tokenize", "/tokenize":
		return l.tokenize, true
	case "/v1/detokenize", "/detokenize":
		return l.detokenize, true
	case "/abort_request":
		return l.abortRequest, true
	case "/flush_cache":
		return l.flushCache, true
	case "/update_weights_from_disk":
		return l.updateWeights, true
	}
	return l.routeGet(path), false
}

func (l *life) routeGet(path string) fasthttp.RequestHandler {
	switch path {
	case "/":
		return func(ctx *fasthttp.RequestCtx) { writeJSON(ctx, fasthttp.StatusOK, []byte(`"SGLang is running"`)) }
	case "/ready", "/ping":
		return func(*fasthttp.RequestCtx) {}
	case "/health", "/health_generate":
		return l.health
	case "/v1/models":
		return l.models
	case "/v1/models/" + l.weights.Load().name:
		return l.model
	case "/server_info", "/get_server_info":
		return l.serverInfo
	case "/model_info", "/get_model_info":
		return l.modelInfo
	case "/v1/loads":
		return l.loads
	case "/metrics":
		return l.metrics
	}
	return nil
}
