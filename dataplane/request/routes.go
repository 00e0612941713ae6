package request

import (
	"bytes"
	"errors"
	"net"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// handleClient serves the clients' listener.
func (s *Server) handleClient(ctx *fasthttp.RequestCtx) {
	switch {
	case ambiguousLength(&ctx.Request.Header):
		ctx.SetConnectionClose()
		s.Fail(ctx, openai.BadRequest("", "The request has both Content-Length and Transfer-Encoding."))
	case unknownCoding(ctx):
		ctx.SetConnectionClose()
		s.Fail(ctx, openai.BadRequest("", "The router supports no Transfer-Encoding but chunked."))
	case s.admin.ServeClient(ctx):
	case string(ctx.Path()) == "/abort_request":
		s.Abort(ctx)
	default:
		s.serveInference(ctx, string(ctx.Path()))
	}
}

// serveInference forwards a request to a worker.
func (s *Server) serveInference(ctx *fasthttp.RequestCtx, path string) {
	api, method, ok := apiOf(path)
	switch {
	case !ok:
		s.Fail(ctx, openai.NotFound(path))
	case ctx.IsOptions(): // a browser's preflight: the worker says what it allows
		s.exchange().serve(call{ctx: ctx}, openai.APIOther, false)
	case method != string(ctx.Method()):
		s.WrongMethod(ctx, method)
	default:
		s.exchange().serve(call{ctx: ctx}, api, method == fasthttp.MethodPost)
	}
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

// ambiguousLength finds a request whose end two servers may see in two places:
// the way to smuggle a second request past one of them.
func ambiguousLength(h *fasthttp.RequestHeader) bool {
	return len(h.Peek(fasthttp.HeaderTransferEncoding)) > 0 && len(h.Peek(fasthttp.HeaderContentLength)) > 0
}

// unknownCoding finds a request whose body has a form that nobody here reads. fasthttp takes "identity", which no longer exists, for no body
// at all and forgets it, so that the body would be the next request.
func unknownCoding(ctx *fasthttp.RequestCtx) bool {
	if len(ctx.PostBody()) > 0 || len(ctx.Request.Header.Peek(fasthttp.HeaderTransferEncoding)) > 0 {
		return false
	}
	for line := range bytes.Lines(ctx.Request.Header.RawHeaders()) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		if len(name) == len(codingField) && bytes.EqualFold(name, codingField) {
			return true
		}
	}
	return false
}

var codingField = []byte("transfer-encoding")

// badRequest answers what fasthttp could not read as a request.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	s.answerBad(ctx, err)
	if code := ctx.Response.StatusCode(); code == fasthttp.StatusRequestEntityTooLarge || code == fasthttp.StatusRequestHeaderFieldsTooLarge {
		upstream.Linger(ctx)
	}
}

// answerBad says what is wrong with what could not be read as a request.
func (s *Server) answerBad(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var ne net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, upstream.ErrBodyTooLarge):
		s.Fail(ctx, openai.TooLarge(s.live().MaxBodyBytes))
	case errors.As(err, &small), errors.Is(err, upstream.ErrTrailer):
		s.Fail(ctx, &openai.Error{
			Status: fasthttp.StatusRequestHeaderFieldsTooLarge, Type: "invalid_request_error", Code: "header_too_large",
			Message: "The request's header is too large.",
		})
	case errors.As(err, &ne) && ne.Timeout(), upstream.ClientOf(ctx.Conn()).Late():
		s.Fail(ctx, &openai.Error{
			Status: fasthttp.StatusRequestTimeout, Type: "invalid_request_error", Code: "request_timeout",
			Message: "The request did not arrive in time.",
		})
	default:
		s.Fail(ctx, openai.BadRequest("", "The request is not valid HTTP: "+strings.TrimSpace(firstLine(err.Error()))))
	}
	ctx.SetConnectionClose()
}

// firstLine keeps an error's words short: fasthttp's quote the whole buffer.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}
