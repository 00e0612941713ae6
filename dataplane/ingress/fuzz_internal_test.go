package ingress

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// bytesConn is the connection of a client that has sent in and closed. A read returns at most
// step bytes.
type bytesConn struct {
	in   *bytes.Reader
	step int
}

func (c *bytesConn) Read(p []byte) (int, error)       { return c.in.Read(p[:min(len(p), c.step)]) }
func (c *bytesConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *bytesConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// readRequest is a request as a server has read it.
type readRequest struct{ method, target, host, body string }

// serveBytes returns the requests that a Server reads in b, and the error for which it stopped.
func serveBytes(b []byte, step int) (all []readRequest, refused error) {
	s := NewServer(Config{
		Handler: func(ctx *fasthttp.RequestCtx) {
			all = append(all, readRequest{
				string(ctx.Method()), string(ctx.RequestURI()), string(ctx.Request.Header.Host()), string(ctx.Request.Body()),
			})
		},
		Refuse:  func(_ *fasthttp.RequestCtx, err error) { refused = err },
		MaxBody: func() int { return 1 << 20 }, MaxHead: 4 << 10, Watcher: &Watcher{}, Log: slog.New(slog.DiscardHandler),
	})
	s.newClient(&bytesConn{bytes.NewReader(b), step}).serve()
	return all, refused
}

// FuzzRequests: the requests that a Server serves are those that net/http reads in the same
// bytes, with the same bodies and ends, in pieces of any size. net/http may stop earlier.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"POST /generate HTTP/1.1\r\nHost: a:1\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
		"POST /a HTTP/1.1\r\ncontent-length: 3\r\nhost: b\r\nUser-Agent: u\r\nCookie: a=b; c=d\r\n\r\nabcPOST /",
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: a\r\nX: b\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\nHost: a\nContent-Length: 1\n\nx\r\n\r\n",
		"POST http://a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.0\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nxGET / HTTP/1.0\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close, te\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		fuzzChunked + "2\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		fuzzChunked + "00a\r\n0123456789\r\nF;x=\"y\"\r\n0123456789abcde\r\n0\r\nX-Sum: 1\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		fuzzChunked + "1 ;x\r\nx\r\n0\r\n\r\n", fuzzChunked + "1\nx\r\n0\r\n\r\n", fuzzChunked + "-1\r\n", fuzzChunked + "0\r\n X: 1\r\n\r\n",
		fuzzChunked + "0\r\nX: 1\r\n 2\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n", fuzzChunked + "0\r\nX: 1\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
		fuzzChunked + strings.Repeat("1\r\nx\r\n", 300) + "0\r\n\r\n",
	} {
		f.Add([]byte(s), uint16(len(s)))
		f.Add([]byte(s), uint16(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint16) {
		got, refused := serveBytes(b, int(step)+1)
		std := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		for i, g := range got {
			want, err := http.ReadRequest(std)
			if err != nil {
				return // net/http is stricter about targets, hosts and names
			}
			body, err := io.ReadAll(want.Body)
			if err != nil {
				return // and about chunks
			}
			host := want.Host
			if strings.Contains(g.target, "://") {
				host = g.host // net/http prefers the target's
			}
			if w := (readRequest{want.Method, want.RequestURI, host, string(body)}); w != g {
				t.Fatalf("request %d: %q, net/http reads %q: %q", i, g, w, b)
			}
		}
		if whole, _ := serveBytes(b, len(b)+1); len(whole) != len(got) {
			t.Fatalf("%d requests in one piece, %d in pieces of %d (%v): %q", len(whole), len(got), int(step)+1, refused, b)
		}
	})
}

// fuzzChunked is the head of a request with chunks.
const fuzzChunked = "POST /generate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
