package sim

import (
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// maxBody is the largest request body in bytes. SGLang has no limit; this one keeps a mistake
// from taking the memory of all workers in the process.
const maxBody = 256 << 20

// idleWorker bounds fasthttp's idle goroutines, and so the time after a server's end until its
// last one ends. With the default of 10 s those of crashed workers would pile up.
const idleWorker = 100 * time.Millisecond

// discardLog is fasthttp's logger. It only reports broken connections, which crashes cause.
type discardLog struct{}

// Printf implements fasthttp.Logger.
func (discardLog) Printf(string, ...any) {}

// httpServer is the engine's HTTP server.
type httpServer struct {
	*process
	listener *listener
	jobs     *jobReader
	answers  *answerer
	admin    *adminAPI
	info     *infoAPI
	tokens   *tokenAPI
	turns    *responsesAPI
	sessions sessions
	loaded   atomic.Pointer[modelWeights]
}

func newHTTPServer(p *process, ln net.Listener, ranks []*rank) *httpServer {
	s := &httpServer{process: p, listener: newListener(ln)}
	s.loaded.Store(&modelWeights{name: p.cfg.Model, path: p.cfg.ModelPath, version: "default"})
	s.jobs = &jobReader{process: p, ranks: ranks, loaded: &s.loaded}
	s.answers = &answerer{process: p}
	s.admin = &adminAPI{process: p, ranks: ranks, jobs: s.jobs, answers: s.answers, loaded: &s.loaded}
	s.info = &infoAPI{
		process: p, ranks: ranks, loaded: &s.loaded, born: time.Now(), seed: rand.Int64N(1 << 30),
	}
	s.tokens = &tokenAPI{cfg: p.cfg}
	s.turns = &responsesAPI{process: p, jobs: s.jobs, answers: s.answers, admin: s.admin}
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
		Logger:                discardLog{},
	}
	s.wg.Go(func() {
		if err := server.Serve(s.listener); err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Error("http server ended", "listen", s.cfg.Listen, "error", err)
		}
	})
}

// serve answers one request, unless the worker hangs.
func (s *httpServer) serve(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) == "/sim/fault" {
		s.admin.fault(ctx) // Also while the worker hangs, so that it can be told not to.
		return
	}
	if !s.faults.awaitUnhang(s.ctx) {
		ctx.SetConnectionClose()
		return
	}
	h, post := s.route(string(ctx.Path()))
	switch {
	case !s.cfg.allows(ctx):
		writeJSON(ctx, fasthttp.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
	case h == nil:
		writeJSON(ctx, fasthttp.StatusNotFound, []byte(`{"detail":"Not Found"}`))
	case !post && !ctx.IsGet() && !ctx.IsHead(), post && !ctx.IsPost() && !ctx.IsPut():
		writeJSON(ctx, fasthttp.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
	default:
		h(ctx)
	}
}

// route returns the handler of path, and whether it takes POST.
func (s *httpServer) route(path string) (h fasthttp.RequestHandler, post bool) {
	switch path {
	case "/generate":
		return s.generate, true
	case "/v1/chat/completions":
		return s.chat, true
	case "/v1/messages":
		return s.messages, true
	case "/v1/responses":
		return s.turns.create, true
	case "/api/chat", "/api/generate":
		return s.ollama, true
	case "/api/show":
		return s.info.show, true
	case "/open_session":
		return s.sessions.serveOpen, true
	case "/close_session":
		return s.sessions.serveClose, true
	case "/v1/messages/count_tokens":
		return s.tokens.countTokens, true
	case "/v1/completions":
		return s.completions, true
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
	if strings.HasPrefix(path, "/v1/responses/") && strings.HasSuffix(path, "/cancel") {
		return s.turns.cancel, true
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
	}
	if strings.HasPrefix(path, "/v1/responses/") {
		return s.turns.retrieve
	}
	return nil
}

// generate serves /generate.
func (s *httpServer) generate(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.generateJob(ctx)
	if unknown := s.sessions.check(ctx.PostBody()); err == nil && unknown != nil {
		err = unknown
	}
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
	s.answers.answer(ctx, j, nativeFormat{})
}

// messages serves /v1/messages.
func (s *httpServer) messages(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.messagesJob(ctx)
	if err != nil {
		p, f := asProblem(err), &messagesFormat{}
		if j != nil && j.stream { // found by the engine, behind the header
			ctx.SetContentType(eventStream)
			ctx.SetBody(f.failed(nil, j, finishReason{status: p.status, message: p.message}))
			return
		}
		p.anthropic(ctx)
		return
	}
	s.answers.answer(ctx, j, &messagesFormat{})
}

// chat serves /v1/chat/completions.
func (s *httpServer) chat(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.chatJob(ctx)
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	s.answers.answer(ctx, j, chatFormat{})
}

// completions serves /v1/completions.
func (s *httpServer) completions(ctx *fasthttp.RequestCtx) {
	j, err := s.jobs.completionsJob(ctx)
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	s.answers.answer(ctx, j, completionFormat{})
}
