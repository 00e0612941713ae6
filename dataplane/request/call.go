package request

import (
	"bytes"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// call is a client's request, whose body is read, and the way to answer it.
type call struct{ ctx *fasthttp.RequestCtx }

func (c call) body() []byte { return c.ctx.Request.Body() }

func (c call) method() []byte { return c.ctx.Method() }

// path returns what is asked for, without a query.
func (c call) path() []byte { return c.ctx.Path() }

// target returns what a worker is asked for.
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

// originForm is a request's target as a server wants it: what a client sends that takes this router for its proxy has a scheme and a host in
// front, which not every worker understands.
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

// idleTimeout is how long a connection may wait for its next request.
const idleTimeout = 5 * time.Minute

// clientsFor is how many connections of clients there may be where so many files may be open. Each may need one to a worker at the same time,
// and the workers' probes and events must go on: without them their caches would be forgotten.
func clientsFor(files int) int {
	others := max(files/8, min(32, files/2))
	return (files - others) / 2
}
