package request

import (
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// handleClient serves the clients' listener.
func (s *Server) handleClient(ctx *fasthttp.RequestCtx) {
	origins := s.requests.live().Origins
	if origins.None() || s.admin.Operated(ctx) {
		s.answerClient(ctx)
		return
	}
	switch {
	case !origin.IsPreflight(ctx):
		s.answerClient(ctx)
	case !origins.Preflight(ctx):
		s.requests.Fail(ctx, &openai.Error{
			Status: fasthttp.StatusForbidden, Type: "invalid_request_error", Code: "origin_not_allowed",
			Message: fmt.Sprintf("Pages of %.100q may not call this API: its operator allows origins with --cors-allowed-origins.", ctx.Request.Header.Peek(fasthttp.HeaderOrigin)),
		})
	}
	origins.Mark(ctx)
}

func (s *Server) answerClient(ctx *fasthttp.RequestCtx) {
	if !s.admin.ServeClient(ctx) {
		s.requests.Serve(ctx)
	}
}

// refuseClient answers a client's request that cannot be read, or has no key.
func (s *Server) refuseClient(ctx *fasthttp.RequestCtx, err error) {
	s.badRequest(ctx, err)
	if origins := s.requests.live().Origins; !origins.None() && !s.admin.Operated(ctx) {
		origins.Mark(ctx)
	}
}

// badRequest answers a request that cannot be read.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	withName(func(ctx *fasthttp.RequestCtx) { s.requests.Fail(ctx, s.unreadable(err)) })(ctx)
}

// unreadable returns the error of a request that cannot be read.
func (s *Server) unreadable(err error) *openai.Error {
	e := &openai.Error{Type: "invalid_request_error"}
	switch {
	case errors.As(err, &e):
	case errors.Is(err, ingress.ErrBodyTooLarge):
		e = openai.TooLarge(s.requests.live().MaxBodyBytes)
	case errors.Is(err, ingress.ErrHeadTooLarge):
		e.Status, e.Code, e.Message = fasthttp.StatusRequestHeaderFieldsTooLarge, "header_too_large", "The request's header is too large."
	case errors.Is(err, ingress.ErrExpectation):
		e.Status, e.Code, e.Message = fasthttp.StatusExpectationFailed, "expectation_failed", "The router supports no Expect but 100-continue."
	case errors.Is(err, ingress.ErrVersion):
		e.Status, e.Code, e.Message = fasthttp.StatusHTTPVersionNotSupported, "http_version_not_supported", "The router speaks HTTP/1.1 and HTTP/1.0."
	case errors.Is(err, ingress.ErrFull):
		e = openai.Overloaded("All connections that clients may have are in use.")
	case errors.Is(err, ingress.ErrSlowRequest):
		e.Status, e.Code, e.Message = fasthttp.StatusRequestTimeout, "request_timeout", "The request did not arrive in time."
	default:
		e = openai.BadRequest("", "The request is not valid HTTP: "+strings.TrimSpace(firstLine(err.Error())))
	}
	return e
}

// firstLine shortens an error: fasthttp's errors quote the whole buffer.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}
