package request

import (
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// call is a client's request and the way to answer it: plain, or else read by fasthttp.
type call struct {
	ctx   *fasthttp.RequestCtx
	plain *upstream.Inbound
}

func (c call) body() []byte {
	if c.plain != nil {
		return c.plain.Body()
	}
	return c.ctx.PostBody()
}

func (c call) method() []byte {
	if c.plain != nil {
		return c.plain.Method()
	}
	return c.ctx.Method()
}

// path returns what is asked for, without a query.
func (c call) path() []byte {
	if c.plain != nil {
		return c.plain.Target()
	}
	return c.ctx.Path()
}

// target returns what a worker is asked for.
func (c call) target() []byte {
	if c.plain != nil {
		return c.plain.Target()
	}
	return originForm(c.ctx.RequestURI())
}

func (c call) peek(name string) []byte {
	if c.plain != nil {
		return c.plain.Peek(name)
	}
	return c.ctx.Request.Header.Peek(name)
}

// appendLines appends the fields that may go to a worker.
func (c call) appendLines(dst []byte, extra []upstream.Field) []byte {
	if c.plain != nil {
		return c.plain.AppendLines(dst, extra)
	}
	return upstream.AppendLines(dst, &c.ctx.Request.Header, extra)
}

// http11 reports whether the client takes chunks.
func (c call) http11() bool { return c.plain != nil || c.ctx.Request.Header.IsHTTP11() }

func (c call) client() *upstream.Client {
	if c.plain != nil {
		return c.plain.Client()
	}
	return upstream.ClientOf(c.ctx.Conn())
}

func (c call) remoteIP() net.IP {
	if c.plain == nil {
		return c.ctx.RemoteIP()
	}
	if addr, ok := c.plain.Client().RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP
	}
	return net.IPv4zero
}

// answer returns the context whose response is the answer.
func (c call) answer() *fasthttp.RequestCtx {
	if c.plain != nil {
		return c.plain.Ctx()
	}
	return c.ctx
}

// idleTimeout is how long a connection may wait for its next request.
const idleTimeout = 5 * time.Minute

// plain says which requests are read and answered without fasthttp, and how.
func (s *Server) plain() *upstream.Plain {
	return &upstream.Plain{
		Takes: func(target []byte, length int) bool {
			_, method, ok := apiOf(string(target))
			return ok && method == fasthttp.MethodPost && length <= s.live().MaxBodyBytes
		},
		Serve: func(in *upstream.Inbound) {
			api, _, _ := apiOf(string(in.Target()))
			s.exchange().serve(call{plain: in}, api, true)
		},
		Refuse:  s.answerBad,
		MaxBody: func() int { return s.live().MaxBodyBytes },
		Closing: s.draining.Load,
		Idle:    idleTimeout, MaxHead: s.cfg.MaxHeaderBytes,
		MaxClients: max(s.cfg.MaxClients, 0),
		Full: sync.OnceFunc(func() {
			s.log.Warn("clients wait to be accepted: the limit of open files leaves room for no more; raise ulimit -n", "connections", s.cfg.MaxClients)
		}),
	}
}

// clientsFor is how many connections of clients there may be where so many files may be open. Each may need one to a worker at the same time,
// and the workers' probes and events must go on: without them their caches would be forgotten.
func clientsFor(files int) int {
	others := max(files/8, min(32, files/2))
	return (files - others) / 2
}
