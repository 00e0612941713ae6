package request

import (
	"bytes"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// call is a client's request, with its body read, and the response to fill.
type call struct{ ctx *fasthttp.RequestCtx }

func (c call) body() []byte { return c.ctx.Request.Body() }

func (c call) method() []byte { return c.ctx.Method() }

// path returns the path without a query.
func (c call) path() []byte { return c.ctx.Path() }

// target returns the request target for a worker.
func (c call) target() []byte { return originForm(c.ctx.RequestURI()) }

func (c call) peek(name string) []byte { return c.ctx.Request.Header.Peek(name) }

// appendLines appends the fields that may go to a worker.
func (c call) appendLines(dst []byte, extra []upstream.Field) []byte {
	return upstream.AppendLines(dst, &c.ctx.Request.Header, extra)
}

// http11 reports whether the client takes chunks.
func (c call) http11() bool { return c.ctx.Request.Header.IsHTTP11() }

// client returns the connection that the request came over.
func (c call) client() *ingress.Client { return ingress.ClientOf(c.ctx.Conn()) }

func (c call) remoteIP() net.IP { return c.ctx.RemoteIP() }

// originForm removes scheme and host from a request target. Clients that take the router for their
// proxy send them, and not every worker understands that.
func originForm(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if i := bytes.IndexByte(rest, '/'); ok && i >= 0 {
		return rest[i:]
	}
	return target
}
