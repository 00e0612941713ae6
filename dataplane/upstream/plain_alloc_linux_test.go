//go:build !race

package upstream_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// passer forwards plain requests with as little of its own as can be.
func passer(t testing.TB, worker string, secured bool) (client net.Conn) {
	t.Helper()
	tr := newTransport(t, upstream.Config{})
	var lines []byte // one connection asks
	req := upstream.Request{Target: target(worker), Plain: true, Body: make([][]byte, 1)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	watched := startWatcher(t).ListenPlain(ln, &upstream.Plain{
		Takes: func([]byte, int) bool { return true }, Closing: func() bool { return false }, Idle: patience, MaxHead: 16 << 10,
		Refuse: refuse, MaxBody: func() int { return 80 << 20 },
		Serve: func(in *upstream.Inbound) {
			lines = in.AppendLines(lines[:0], nil)
			req.Method, req.Path, req.Lines, req.Body[0] = in.Method(), in.Target(), lines, in.Body()
			resp, err := tr.Do(nil, &req)
			if err != nil || resp.Await() != nil || !in.Pass(resp, sink{}, nil, time.Now()) {
				in.Ctx().Error("cannot pass", fasthttp.StatusInternalServerError)
			}
		},
	})
	if secured {
		watched = upstream.ListenTLS(watched, serverTLS(t), nil)
	}
	srv, ended := &fasthttp.Server{ReduceMemoryUsage: true, ConnState: upstream.NoteState}, make(chan error, 1)
	go func() { ended <- srv.Serve(watched) }()
	t.Cleanup(func() { watched.Close(); <-ended })
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if secured {
		return tls.Client(client, clientTLS(t))
	}
	return client
}

// BenchmarkPlain is the path of a plain request, to be compared with BenchmarkForward: client and worker are in the same process.
func BenchmarkPlain(b *testing.B) {
	for _, secured := range []bool{false, true} {
		b.Run(fmt.Sprintf("tls=%v", secured), func(b *testing.B) { benchmarkPlain(b, secured) })
	}
}

func benchmarkPlain(b *testing.B, secured bool) {
	b.Helper()
	w := startWorker(b, echo(plainAnswer))
	c := passer(b, w.addr(), secured)
	out, buf := append([]byte(chatHead), make([]byte, 300)...), make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(out)
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInbound(b *testing.B) {
	upstream.ParseRepeatedly(b, append([]byte(chatHead), make([]byte, 300)...))
}

// TestPlainDoesNotAllocate: neither small requests nor, between them, large ones leave anything to the collector.
func TestPlainDoesNotAllocate(t *testing.T) {
	t.Run("tls=false", func(t *testing.T) { testPlainDoesNotAllocate(t, false, 0) })
	// crypto/tls makes a reader of 24 bytes for each read of its socket, on both ends.
	t.Run("tls=true", func(t *testing.T) { testPlainDoesNotAllocate(t, true, 2) })
}

func testPlainDoesNotAllocate(t *testing.T, secured bool, most float64) {
	t.Helper()
	const size = 200 << 10
	answer := []byte(plainAnswer)
	w := startWorker(t, func(_ int, p *peer) {
		buf := make([]byte, 1<<20)
		for {
			n, err := p.Read(buf)
			if err != nil {
				return
			}
			large := bytes.Contains(buf[:n], []byte("Content-Length: 204800"))
			for large && n < bytes.Index(buf[:n], []byte("\r\n\r\n"))+4+size { // comes in pieces
				m, err := p.Read(buf)
				if err != nil {
					return
				}
				n += m
			}
			if _, err := p.Write(answer); err != nil {
				return
			}
		}
	})
	c := passer(t, w.addr(), secured)
	small := append([]byte(chatHead), make([]byte, 300)...)
	large := append([]byte("POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 204800\r\n\r\n"), make([]byte, size)...)
	got := make([]byte, 200) // of an answer, less what varies
	ask := func(request []byte) {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAtLeast(c, got, len("HTTP/1.1 200 OK\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(500, func() { ask(small) }); n > most {
		t.Errorf("a small request allocates %v times", n)
	}
	ask(large)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 100
	for range rounds {
		ask(small)
		ask(large)
	}
	runtime.ReadMemStats(&after)
	// A goroutine writes what the worker's socket does not take at once.
	if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > 20<<10 {
		t.Errorf("a large request among small ones allocates %d bytes", n)
	}
}
