package sim

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
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

// httpServer is the engine's HTTP server.
type httpServer struct {
	*process
	listener *listener
	jobs     *jobReader
	answers  *answerer
	admin    *adminAPI
	info     *infoAPI
	tokens   *tokenAPI
	loaded   atomic.Pointer[weights]
	served   requestCounts
	dying    atomic.Bool // Of a request.
}

func newHTTPServer(p *process, ln net.Listener, ranks []*rank) *httpServer {
	s := &httpServer{process: p, listener: newListener(ln)}
	s.loaded.Store(&weights{name: p.cfg.Model, path: p.cfg.ModelPath, version: "default"})
	s.jobs = &jobReader{process: p, ranks: ranks, loaded: &s.loaded}
	s.answers = &answerer{process: p}
	s.admin = &adminAPI{process: p, ranks: ranks, jobs: s.jobs, answers: s.answers, loaded: &s.loaded}
	s.info = &infoAPI{
		process: p, ranks: ranks, loaded: &s.loaded, served: &s.served, born: time.Now(), seed: rand.Int64N(1 << 30),
	}
	s.tokens = &tokenAPI{cfg: p.cfg}
	return s
}

// start serves in the background.
func (s *httpServer) start() {
	server := &fasthttp.Server{
		Handler:               s.serve,
		Name:                  "uvicorn",
		MaxRequestBodySize:    maxBody,
		MaxIdleWorkerDuration: idleWorker,
		ReadBufferSize:        16 << 10,
		Logger:                silent{},
	}
	s.wg.Go(func() {
		if err := server.Serve(s.listener); err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Error("http server ended", "listen", s.cfg.Listen, "error", err)
		}
	})
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
func (s *httpServer) serve(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) == "/sim/fault" {
		s.admin.fault(ctx) // also while the worker hangs: how else could it be told not to
		return
	}
	if !s.faults.pass(s.ctx) {
		ctx.SetConnectionClose()
		return
	}
	h, post := s.route(string(ctx.Path()))
	switch {
	case h == nil:
		writeJSON(ctx, fasthttp.StatusNotFound, []byte(`{"detail":"Not Found"}`))
	case !post && !ctx.IsGet() && !ctx.IsHead(), post && !ctx.IsPost() && !ctx.IsPut():
		writeJSON(ctx, fasthttp.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
	default:
		s.served.add(string(ctx.Path()))
		h(ctx)
	}
}

// route finds what serves path, and whether by POST.
func (s *httpServer) route(path string) (h fasthttp.RequestHandler, post bool) {
	switch path {
	case "/generate":
		return s.mortal(s.generate), true
	case "/v1/chat/completions":
		return s.mortal(s.chat), true
	case "/v1/completions":
		return s.mortal(s.completions), true
	case "/v1/tokenize", "/tokenize":
		return s.tokens.tokenize, true
	case "/v1/detokenize", "/detokenize":
		return s.tokens.detokenize, true
	case "/abort_request":
		return s.admin.abortRequest, true
	case "/flush_cache":
		return s.admin.flushCache, true
	case "/update_weights_from_disk":
		return s.admin.updateWeights, true
	}
	return s.routeGet(path), false
}

func (s *httpServer) routeGet(path string) fasthttp.RequestHandler {
	switch path {
	case "/":
		return func(ctx *fasthttp.RequestCtx) { writeJSON(ctx, fasthttp.StatusOK, []byte(`"SGLang is running"`)) }
	case "/ready", "/ping":
		return func(*fasthttp.RequestCtx) {}
	case "/health", "/health_generate":
		return s.admin.health
	case "/v1/models":
		return s.info.models
	case "/v1/models/" + s.loaded.Load().name:
		return s.info.model
	case "/server_info", "/get_server_info":
		return s.info.serverInfo
	case "/model_info", "/get_model_info":
		return s.info.modelInfo
	case "/v1/loads":
		return s.info.loads
	case "/metrics":
		return s.info.metrics
	}
	return nil
}

// generate serves SGLang's own /generate.
func (s *httpServer) generate(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.generateJob(ctx)
	if err != nil {
		p := asProblem(err)
		if j != nil && j.stream && !p.validation {
			ctx.SetContentType(eventStream)
			ctx.SetBody(p.event(nil))
			return
		}
		p.native(ctx)
		return
	}
	s.answers.answer(ctx, j, native{})
}

// chat serves /v1/chat/completions.
func (s *httpServer) chat(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.chatJob(ctx)
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	s.answers.answer(ctx, j, chatWording{})
}

// completions serves /v1/completions.
func (s *httpServer) completions(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.completionsJob(ctx)
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	s.answers.answer(ctx, j, completionWording{})
}
