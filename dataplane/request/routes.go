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
	if !s.admin.ServeClient(ctx) {
		s.requests.Serve(ctx)
	}
}

// badRequest answers a request that cannot be read.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	withName(func(ctx *fasthttp.RequestCtx) { s.requests.Fail(ctx, s.unreadable(err)) })(ctx)
}

// unreadable returns the error of a request that cannot be read.
func (s *Server) unreadable(err error) *openai.Error {
	var e *openai.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, ingress.ErrBodyTooLarge):
		return openai.TooLarge(s.requests.live().MaxBodyBytes)
	case causeOf(err) == causeUnknown:
		return openai.BadRequest("", "The request is not valid HTTP: "+strings.TrimSpace(firstLine(err.Error())))
	}
	return ErrorFor(err, "")
}

// firstLine shortens an error: fasthttp's errors quote the whole buffer.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}
