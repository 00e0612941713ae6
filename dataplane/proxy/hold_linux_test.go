package proxy_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/proxy"
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

// TestStreamEndsInOneWrite: fasthttp's three writes at the end of a chunked answer leave as one, with the last piece where
// the worker's end came with it.
func TestStreamEndsInOneWrite(t *testing.T) {
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
			ln, obs := countedRouter(t, up.addr())
			c := dialRouter(t, ln.Addr().String())
			for range 2 { // nothing is kept back from one answer to the next
				ln.writes.Store(0)
				within(t, "answer", func() {
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
				if n := ln.writes.Load(); n != tt.writes {
					t.Errorf("%d writes, want %d", n, tt.writes)
				}
			}
		})
	}
}

// countedRouter forwards requests from a Watcher's listener to one worker.
func countedRouter(t testing.TB, upstream string) (*countedListener, *recorder) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, obs, tr := &countedListener{Listener: inner}, newRecorder(), newTransport(t, proxy.Config{})
	srv := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		req := post(upstream, "{}")
		resp, err := tr.Do(nil, req)
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		proxy.Forward(ctx, resp, obs)
	}}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(startWatcher(t).Listen(ln)) }()
	t.Cleanup(func() {
		inner.Close()
		<-ended
	})
	return ln, obs
}
