package upstream

import (
	"errors"
	"net"

	"github.com/valyala/fasthttp"
)

// handle answers a request whose head fasthttp has read.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	cl := ClientOf(ctx.Conn())
	if err := cl.readBody(ctx, s.cfg.MaxBody()); err != nil {
		s.refuse(cl, ctx, err)
		return
	}
	s.cfg.Handler(ctx)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
}

// checkRequest is the verdict on a head, before anything of the body is read.
func (s *Server) checkRequest(h *fasthttp.RequestHeader) error {
	if err := checkHead(h); err != nil {
		return err
	}
	if h.ContentLength() > s.cfg.MaxBody() {
		return ErrBodyTooLarge
	}
	return nil
}

var expectContinue = []byte("100-continue")

// headerReceived checks a head before fasthttp reads anything of the body. A request that is to be
// refused gets an expectation, for fasthttp to ask ExpectHandler before it reads on. fasthttp (1.74)
// knows the expectation in lower case only, and in HTTP/1.0, too, where it must be ignored
// (RFC 9110 10.1.1).
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	dropNominated(h)
	expect := h.Peek(fasthttp.HeaderExpect)
	switch {
	case s.checkRequest(h) != nil, len(expect) > 0 && h.IsHTTP11():
		h.SetBytesV(fasthttp.HeaderExpect, expectContinue)
	case len(expect) > 0:
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: s.cfg.MaxBody()}
}

// expect tells a client that waits with its body whether it is wanted.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if err := s.checkRequest(&ctx.Request.Header); err != nil {
		s.refuse(ClientOf(ctx.Conn()), ctx, err)
		return ctx.Response.StatusCode()
	}
	return fasthttp.StatusContinue
}

// badRequest answers bytes that fasthttp could not read as a request.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	s.refuse(ClientOf(ctx.Conn()), ctx, err)
}

// refuse answers a request that cannot be read, and ends the connection once the client has seen it.
func (s *Server) refuse(cl *Client, ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var ne net.Error
	switch {
	case cl.Late(), errors.As(err, &ne) && ne.Timeout():
		err = ErrSlowRequest
	case errors.As(err, &small):
		err = ErrHeadTooLarge
	}
	s.cfg.Refuse(ctx, err)
	ctx.SetConnectionClose()
	cl.lingers = true
}
