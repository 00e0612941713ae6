package ingress_test

import (
	"io"
	"net"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// watchedPair returns a client's end of a connection, and the server's while it serves a
// request.
func watchedPair(t testing.TB) (client *net.TCPConn, server *ingress.Client) {
	t.Helper()
	ln, served, end := ingresstest.Listen(t), make(chan *ingress.Client), make(chan struct{})
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		served <- ingress.ClientOf(ctx.Conn())
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

// canceled is a Canceler that counts.
type canceled struct{ ch chan struct{} }

func newCanceled() *canceled { return &canceled{make(chan struct{}, 10)} }

func (c *canceled) Cancel() { c.ch <- struct{}{} }

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
			before, c, after := newCanceled(), newCanceled(), newCanceled()
			cl.Guard(before)
			cl.Release()
			cl.Guard(c)
			go tt.leave(client)
			<-c.ch
			cl.Release()
			// The client stays gone for later requests.
			cl.Guard(after)
			cl.Release()
			if len(before.ch) != 0 || len(after.ch) != 1 || !cl.Gone() {
				t.Errorf("canceled before %d after %d, want 0 1", len(before.ch), len(after.ch))
			}
		})
	}
}

func TestClientOfOthers(t *testing.T) {
	_, server := testkit.TCPPair(t)
	cl := ingress.ClientOf(server)
	if cl != nil {
		t.Fatal("ClientOf a plain connection is not nil")
	}
	cl.Guard(newCanceled())
	cl.Release()
	if cl.Gone() {
		t.Error("nobody has left")
	}
}

func BenchmarkGuard(b *testing.B) {
	_, cl := watchedPair(b)
	c := newCanceled()
	b.ReportAllocs()
	for b.Loop() {
		cl.Guard(c)
		cl.Release()
	}
}
