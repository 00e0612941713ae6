package upstream_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// countedListener counts the writes to its connections.
type countedListener struct {
	net.Listener
	writes atomic.Int64
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{nc, &l.writes}, nil
}

func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestStreamEndsInOneWrite: fasthttp's three writes at the end of a chunked answer leave as
// one, with the last piece where the worker's end came with it.
func TestStreamEndsInOneWrite(t *testing.T) { tlstest.OverBoth(t, testStreamEndsInOneWrite) }

func testStreamEndsInOneWrite(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name   string
		pieces []string // of the worker; each waits until the client has seen the one before
		seen   []string
		writes int64
	}{
		{"all at once", []string{head + "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"}, []string{"onetwo"}, 1},
		{"the end with the last piece", []string{head + "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n"}, []string{"one", "two"}, 2},
		{"the end alone", []string{head + "3\r\none\r\n", "0\r\n\r\n"}, []string{"one", ""}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := make(chan struct{}, 1)
			up := startWorker(t, func(_ int, p *peer) {
				for {
					if _, _, ok := p.request(); !ok {
						return
					}
					for _, piece := range tt.pieces {
						<-next
						p.send(piece)
					}
				}
			})
			ln, obs := countedRouter(t, up.addr(), upstream.Forward)
			c := dialRouter(t, ln.Addr().String())
			for round := range 3 { // nothing is kept back from one answer to the next
				ln.writes.Store(0)
				ingresstest.Within(t, "answer", func() {
					next <- struct{}{}
					resp := c.ask(t, "POST")
					for i, want := range tt.seen {
						if i > 0 {
							next <- struct{}{}
						}
						got := make([]byte, len(want))
						if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
							t.Fatalf("piece %q %v, want %q", got, err, want)
						}
					}
					if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
						t.Errorf("end = %q %v", rest, err)
					}
					wantErr(t, "Closed", <-obs.closed, nil)
				})
				if n := ln.writes.Load(); n != tt.writes && round > 0 { // the first time, there is the handshake

					t.Errorf("%d writes, want %d", n, tt.writes)
				}
			}
		})
	}
}

// TestWholeAnswersLeaveInOneWrite: an answer that is there as a whole is one write, though
// fasthttp's buffer (4 KiB here) is smaller; so is one that is compressed. The best of some
// rounds counts: the worker's write may come in two pieces.
func TestWholeAnswersLeaveInOneWrite(t *testing.T) {
	tlstest.OverBoth(t, testWholeAnswersLeaveInOneWrite)
}

func testWholeAnswersLeaveInOneWrite(t *testing.T) {
	var zips upstream.Compressors
	zip := func(ctx *fasthttp.RequestCtx, r *upstream.Response, obs upstream.Observer, now time.Time) {
		all, err := io.ReadAll(r) // as the router does before it compresses
		wantErr(t, "ReadAll", err, nil)
		r.Unread(all)
		upstream.ForwardGzip(ctx, r, obs, now, &zips)
	}
	tests := []struct {
		name    string
		size    int
		forward func(*fasthttp.RequestCtx, *upstream.Response, upstream.Observer, time.Time)
	}{
		{"short", 300, upstream.Forward},
		{"as long as the buffer", 4096, upstream.Forward},
		{"longer", 5000, upstream.Forward},
		{"twice", 8192, upstream.Forward},
		{"almost all that is read at once", 15000, upstream.Forward},
		{"compressed", 12000, zip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Repeat("0123456789", tt.size/10+1)[:tt.size]
			up := startWorker(t, each(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", tt.size, text)))
			ln, obs := countedRouter(t, up.addr(), tt.forward)
			c := dialRouter(t, ln.Addr().String())
			best := int64(100)
			for range 20 {
				ln.writes.Store(0)
				ingresstest.Within(t, "answer", func() {
					resp := c.ask(t, "POST")
					var body io.Reader = resp.Body
					if resp.Header.Get("Content-Encoding") == "gzip" {
						z, err := gzip.NewReader(resp.Body)
						if err != nil {
							t.Fatal(err)
						}
						body = z
					}
					if got, err := io.ReadAll(body); string(got) != text || err != nil {
						t.Fatalf("got %d bytes, %v; want %d", len(got), err, tt.size)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					wantErr(t, "Closed", <-obs.closed, nil)
				})
				best = min(best, ln.writes.Load())
			}
			if best != 1 {
				t.Errorf("%d writes, want 1", best)
			}
		})
	}
}

// countedRouter forwards requests from a Watcher's listener to one worker.
func countedRouter(
	t testing.TB, url string, forward func(*fasthttp.RequestCtx, *upstream.Response, upstream.Observer, time.Time),
) (*countedListener, *recorder) {
	t.Helper()
	ln, obs, tr := &countedListener{Listener: ingresstest.Listen(t)}, newRecorder(), newTransport(t, upstream.Config{})
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		req := post(url, "{}")
		resp, err := tr.Do(nil, req)
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		forward(ctx, resp, obs, time.Now())
	})
	return ln, obs
}
