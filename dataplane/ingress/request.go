package ingress

import (
	"errors"
	"net"
	"strings"

	"github.com/valyala/fasthttp"
)

// handle reads the body of a request whose head is sound, and passes it to the handler.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	cl := ClientOf(ctx.Conn())
	if cl.place.spare && !s.cfg.Reserved(ctx.Path()) && !s.promote(cl) {
		s.cfg.Closed(ReasonFull)
		s.refuse(cl, ctx, ErrFull)
		return
	}
	if cl.lines.bare { // in the first line, which is not among those that checkHead sees
		s.refuse(cl, ctx, errBareLF)
		return
	}
	if err := s.cfg.Authorize(ctx); err != nil {
		s.refuse(cl, ctx, err)
		return
	}
	if err := cl.readBody(ctx); err != nil {
		s.refuse(cl, ctx, err)
		return
	}
	s.cfg.Handler(ctx)
	if cl.place.spare || s.leaving.Load() {
		ctx.SetConnectionClose()
	}
}

// headerReceived checks a head before fasthttp reads any of the body. A head that is to be
// refused gets an expectation: fasthttp then asks ExpectHandler before it reads on. fasthttp
// (1.74) recognizes the expectation in lower case only, and in HTTP/1.0 too, which must ignore
// it (RFC 9110 10.1.1).
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	dropNominated(h)
	expect := h.PeekCanonical(expectField)
	switch {
	case s.checkRequest(h) != nil, len(expect) > 0 && h.IsHTTP11():
		h.SetBytesV(fasthttp.HeaderExpect, expectContinue)
	case len(expect) > 0:
		h.Del(fasthttp.HeaderExpect)
	}
	// The least limit: a longer body is streamed, and readBody bounds it.
	return fasthttp.RequestConfig{MaxRequestBodySize: 1}
}

// expect answers a client that waits before it sends the body: 100, or the reason for a
// refusal.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	err := s.checkRequest(&ctx.Request.Header)
	if err == nil {
		err = s.cfg.Authorize(ctx)
	}
	if err != nil {
		s.refuse(ClientOf(ctx.Conn()), ctx, err)
		return ctx.Response.StatusCode()
	}
	return fasthttp.StatusContinue
}

// checkRequest decides by its head whether a request is read.
func (s *Server) checkRequest(h *fasthttp.RequestHeader) error {
	if string(h.Protocol()) != "HTTP/1.1" && string(h.Protocol()) != "HTTP/1.0" {
		return ErrVersion
	}
	if err := checkHead(h); err != nil {
		return err
	}
	if err := checkTarget(h, s.cfg.Slashes); err != nil {
		return err
	}
	if h.ContentLength() > s.cfg.MaxBody() {
		return ErrBodyTooLarge
	}
	return nil
}

// badRequest answers bytes that fasthttp could not read as a request.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	s.refuse(ClientOf(ctx.Conn()), ctx, unquoted{err})
}

// unquoted is an error of fasthttp without the parts of the head that it quotes: a proxy may have
// put secrets there that are not the client's.
type unquoted struct{ error }

func (e unquoted) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), `"`)
	text, _, _ = strings.Cut(text, ": buffer size=")
	return strings.TrimSpace(text)
}

func (e unquoted) Unwrap() error { return e.error }

// refuse answers a request that is not read to its end. The connection ends once the client has
// seen the answer.
func (s *Server) refuse(cl *Client, ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var ne net.Error
	switch {
	case cl.limit.late, errors.As(err, &ne) && ne.Timeout():
		err = ErrSlowRequest
		s.cfg.Closed(ReasonSlow)
	case errors.As(err, &small):
		err = ErrHeadTooLarge
	}
	s.cfg.Refuse(ctx, err)
	ctx.SetConnectionClose()
	cl.lingers = true
}

// refuseBeginning answers bytes that no request begins with.
func (s *Server) refuseBeginning(cl *Client, err error) {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(cl, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	s.refuse(cl, ctx, err)
	_, _ = ctx.Response.WriteTo(cl)
}
