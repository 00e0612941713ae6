package request

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// call is a client's request with its body, and the way to answer it.
type call struct{ ctx *fasthttp.RequestCtx }

func (c call) body() []byte { return c.ctx.Request.Body() }

func (c call) method() []byte { return c.ctx.Method() }

// path returns the target without its query.
func (c call) path() []byte { return c.ctx.Path() }

// target returns the target for the worker.
func (c call) target() []byte { return originForm(c.ctx.RequestURI()) }

func (c call) peek(name string) []byte { return c.ctx.Request.Header.Peek(name) }

// appendLines appends the header fields that may go to a worker.
func (c call) appendLines(dst []byte, extra []upstream.Field) []byte {
	return upstream.AppendLines(dst, &c.ctx.Request.Header, extra)
}

// http11 reports whether the client understands chunked answers.
func (c call) http11() bool { return c.ctx.Request.Header.IsHTTP11() }

// client returns the request's connection.
func (c call) client() *ingress.Client { return ingress.ClientOf(c.ctx.Conn()) }

// address returns the address of the client, or its network of IPv6.
func (c call) address(proxies worker.Networks) netip.Addr {
	return ingress.NetworkOf(c.sender(proxies))
}

// sender returns the address of the client. A proxy that is trusted names it: X-Forwarded-For grows
// to the right, and all that is left of the first address that is not trusted can be invented.
func (c call) sender(proxies worker.Networks) netip.Addr {
	addr := netip.Addr{}
	if tcp, ok := c.ctx.RemoteAddr().(*net.TCPAddr); ok {
		addr = tcp.AddrPort().Addr().Unmap()
	}
	if !proxies.Contains(addr) {
		return addr
	}
	for _, line := range slices.Backward(c.ctx.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor)) {
		for more := true; more; {
			item := line
			at := bytes.LastIndexByte(line, ',')
			if more = at >= 0; more {
				line, item = line[:at], line[at+1:]
			}
			next, ok := forwardedAddr(string(bytes.TrimSpace(item)))
			if !ok {
				return addr
			}
			if addr = next; !proxies.Contains(addr) {
				return addr
			}
		}
	}
	return addr
}

// forwardedAddr reads an element of X-Forwarded-For, with or without a port.
func forwardedAddr(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap(), err == nil
}

// originForm returns a request's target as workers want it. A client that uses this router as its
// proxy sends scheme and host in front, which not every worker understands.
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
