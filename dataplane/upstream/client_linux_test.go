package upstream_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// watchedPair returns both ends of a connection that came through a Watcher's listener.
func watchedPair(t testing.TB, w *upstream.Watcher) (client *net.TCPConn, server net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	ln := w.Listen(inner)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s
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
	w := startWatcher(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, server := watchedPair(t, w)
			cl := upstream.ClientOf(tls.Server(server, &tls.Config{}))
			if cl == nil {
				t.Fatal("ClientOf = nil")
			}
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
	w := startWatcher(b)
	_, server := watchedPair(b, w)
	var c upstream.Canceler
	b.ReportAllocs()
	for b.Loop() {
		cl := upstream.ClientOf(server)
		cl.Guard(&c)
		cl.Release()
	}
}
