package request

import (
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// handleClient serves the clients' listener.
func (s *Server) handleClient(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	switch {
	case s.operator == nil && (operatorPath(path) || isFlush(ctx)):
		s.handleOperator(ctx)
	case path == "/health" || path == "/liveness":
		ctx.SetBodyString("ok\n")
	case path == "/ready" || path == "/readiness":
		s.serveReady(ctx)
	case path == "/v1/models" && (ctx.IsGet() || ctx.IsHead()):
		s.serveModels(ctx)
	case path == "/abort_request":
		s.serveAbort(ctx)
	default:
		s.serveInference(ctx, path)
	}
}

// serveInference forwards what workers answer.
func (s *Server) serveInference(ctx *fasthttp.RequestCtx, path string) {
	api, method, ok := apiOf(path)
	switch {
	case !ok:
		s.fail(ctx, openai.NotFound(path))
	case ctx.IsOptions(): // a browser's preflight: what is allowed is the worker's to say
		s.exchange().serve(call{ctx: ctx}, openai.APIOther, false)
	case method != string(ctx.Method()):
		s.wrongMethod(ctx, method)
	default:
		s.exchange().serve(call{ctx: ctx}, api, method == fasthttp.MethodPost)
	}
}

func (s *Server) exchange() *exchange {
	e, _ := s.exchanges.Get().(*exchange)
	return e
}

// apiOf says how a path is forwarded. What is not listed is not forwarded: a
// worker also has routes that change its weights and its cache.
func apiOf(path string) (api openai.API, method string, ok bool) {
	switch path {
	case "/v1/chat/completions":
		return openai.APIChat, fasthttp.MethodPost, true
	case "/v1/completions":
		return openai.APICompletions, fasthttp.MethodPost, true
	case "/generate":
		return openai.APIGenerate, fasthttp.MethodPost, true
	case "/v1/embeddings", "/v1/rerank", "/v1/responses", "/v1/score", "/v1/classify", "/v1/messages",
		"/v1/messages/count_tokens", "/rerank", "/v1/tokenize", "/tokenize", "/v1/detokenize", "/detokenize", "/encode", "/classify":
		return openai.APIOther, fasthttp.MethodPost, true
	case "/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/models", "/health_generate":
		return openai.APIOther, fasthttp.MethodGet, true
	default:
		return openai.APIOther, fasthttp.MethodGet, strings.HasPrefix(path, "/v1/models/")
	}
}

// badRequest answers a request that cannot be read.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	e := &openai.Error{Type: "invalid_request_error"}
	switch {
	case errors.Is(err, ingress.ErrBodyTooLarge):
		e = openai.TooLarge(s.live().MaxBodyBytes)
	case errors.Is(err, ingress.ErrHeadTooLarge):
		e.Status, e.Code, e.Message = fasthttp.StatusRequestHeaderFieldsTooLarge, "header_too_large", "The request's header is too large."
	case errors.Is(err, ingress.ErrExpectation):
		e.Status, e.Code, e.Message = fasthttp.StatusExpectationFailed, "expectation_failed", "The only expectation that is known here is 100-continue."
	case errors.Is(err, ingress.ErrSlowRequest):
		e.Status, e.Code, e.Message = fasthttp.StatusRequestTimeout, "request_timeout", "The request did not arrive in time."
	default:
		e = openai.BadRequest("", "The request is not valid HTTP: "+strings.TrimSpace(firstLine(err.Error())))
	}
	s.fail(ctx, e)
}

// firstLine keeps an error's words short: fasthttp's quote the whole buffer.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}

// wrongMethod answers a request whose path takes other methods.
func (s *Server) wrongMethod(ctx *fasthttp.RequestCtx, allow string) {
	ctx.Response.Header.Set(fasthttp.HeaderAllow, allow)
	s.fail(ctx, &openai.Error{
		Status: fasthttp.StatusMethodNotAllowed, Type: "invalid_request_error", Code: "method_not_allowed",
		Message: string(ctx.Path()) + " takes " + allow + ", not " + string(ctx.Method()) + ".",
	})
}

// fail answers with an error as OpenAI's clients read it.
func (s *Server) fail(ctx *fasthttp.RequestCtx, e *openai.Error) {
	s.metrics.failed(e.Status)
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType("application/json")
	if e.Status == fasthttp.StatusServiceUnavailable || e.Status == fasthttp.StatusTooManyRequests {
		ctx.Response.Header.Set("Retry-After", "1")
	}
	ctx.SetBody(e.AppendJSON(nil))
}
