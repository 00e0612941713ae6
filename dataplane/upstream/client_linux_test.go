package upstream_test

import (
	"io"
	"net"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// watchedPair returns a client's end of a connection, and the server's while it serves a request.
func watchedPair(t testing.TB) (client *net.TCPConn, server *upstream.Client) {
	t.Helper()
	ln, served, end := listen(t), make(chan *upstream.Client), make(chan struct{})
	startServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		served <- upstream.ClientOf(ctx.Conn())
		<-end
	})
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(end); c.Close() })
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	return c.(*net.TCPConn), <-served
}

// waitCanceled runs a request that only its Canceler ends.
func waitCanceled(t *testing.T, c *upstream.Canceler) {
	t.Helper()
	w := startWorker(t, func(_ int, p *peer) { p.gone() })
	within(t, "request", func() {
		_, err := newTransport(t, upstream.Config{}).Do(c, post(w.addr(), "{}"))
		wantErr(t, "Do", err, upstream.ErrCanceled)
	})
}

func TestClientGuard(t *testing.T) {
	tests := []struct {
		name  string
		leave func(*net.TCPConn)
	}{
		{"close", func(c *net.TCPConn) { c.Close() }},
		{"reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }},
		{"half-close", func(c *net.TCPConn) { c.CloseWrite() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, cl := watchedPair(t)
			// A request before this one ended well; its Canceler must stay untouched.
			var before, c upstream.Canceler
			cl.Guard(&before)
			cl.Release()
			cl.Guard(&c)
			go tt.leave(client)
			waitCanceled(t, &c)
			cl.Release()
			// The client stays gone for what comes after.
			var after upstream.Canceler
			cl.Guard(&after)
			cl.Release()
			if before.Canceled() || !after.Canceled() {
				t.Errorf("canceled before %v after %v, want false true", before.Canceled(), after.Canceled())
			}
		})
	}
}

func TestClientOfOthers(t *testing.T) {
	_, server := pair(t)
	cl := upstream.ClientOf(server)
	if cl != nil {
		t.Fatal("ClientOf a plain connection is not nil")
	}
	var c upstream.Canceler
	cl.Guard(&c)
	cl.Release()
}

func BenchmarkGuard(b *testing.B) {
	_, cl := watchedPair(b)
	var c upstream.Canceler
	b.ReportAllocs()
	for b.Loop() {
		cl.Guard(&c)
		cl.Release()
	}
}
