//go:build !race

package upstream_test

import (
	"io"
	"net"
	"strings"
	"testing"
)

// streaming begins a stream , and returns its two ends.
func streaming(t testing.TB) (worker, client net.Conn) {
	t.Helper()
	asked := make(chan net.Conn, 1)
	w := startWorker(t, func(_ int, p *peer) {
		p.request()
		p.send(streamHead + chunkOf("first\n\n"))
		asked <- p.Conn
		p.gone()
	})
	client = dialRouter(t, startRouter(t, w.addr(), sink{}))
	io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	for got, buf := "", make([]byte, 1<<10); !strings.HasSuffix(got, chunkOf("first\n\n")); {
		n, err := client.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
	return <-asked, client
}

// piece sends one piece from the worker to the client.
func piece(t testing.TB, worker, client net.Conn, chunk, buf []byte) {
	t.Helper()
	if _, err := worker.Write(chunk); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, buf[:len(chunk)]); err != nil {
		t.Fatal(err)
	}
}

// onePiece is a piece of a stream of events.
var onePiece = chunkOf(strings.Repeat("x", 298) + "\n\n")

func TestRelayDoesNotAllocate(t *testing.T) {
	worker, client := streaming(t)
	chunk, buf := []byte(onePiece), make([]byte, 1<<10)
	piece(t, worker, client, chunk, buf)
	if n := testing.AllocsPerRun(1000, func() { piece(t, worker, client, chunk, buf) }); n != 0 {
		t.Errorf("a piece of a stream allocates %v times, want 0", n)
	}
}

// BenchmarkRelay is a piece of a stream on its way, with worker and client in the same process.
func BenchmarkRelay(b *testing.B) {
	worker, client := streaming(b)
	chunk, buf := []byte(onePiece), make([]byte, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		piece(b, worker, client, chunk, buf)
	}
}
