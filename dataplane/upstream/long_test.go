package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestLongReads reads answers into memory for all of them, which is more than the read buffer
// has.
func TestLongReads(t *testing.T) { tlstest.OverBoth(t, testLongReads) }

func testLongReads(t *testing.T) {
	const buffer, long = 512, 4000
	var body strings.Builder
	for i := range long / 4 {
		fmt.Fprintf(&body, "%04d", i)
	}
	tests := []struct {
		name  string
		body  string
		least int // bytes that must have come
		err   error
		idle  int
	}{
		{"whole", body.String(), long, nil, 1},
		{"cut", body.String()[:long-1], long - 1, upstream.ErrTruncated, 0},
		{"cut in the middle", body.String()[:long/2], long / 2, upstream.ErrTruncated, 0},
		{"more than was said", body.String() + "HTTP/1.1 200 OK\r\n", long, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, func(_ int, p *peer) {
				if _, _, ok := p.request(); !ok {
					return
				}
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", long, tt.body))
				if tt.err == nil {
					p.gone()
				}
			})
			tr := newTransport(t, upstream.Config{ReadBuffer: buffer})
			resp, err := tr.Do(nil, post(w.addr()))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, long)
			n, err := io.ReadFull(resp, got)
			if n != tt.least || string(got[:n]) != body.String()[:n] || !errors.Is(err, tt.err) {
				t.Errorf("ReadFull = %d bytes %v; want %d %v, and those that were sent", n, err, tt.least, tt.err)
			}
			resp.Close()
			if n := tr.Idle(""); n != tt.idle {
				t.Errorf("Idle = %d, want %d", n, tt.idle)
			}
		})
	}
}

// TestLongReadsInPieces has the answer come bit by bit, and twice over one connection.
func TestLongReadsInPieces(t *testing.T) { tlstest.OverBoth(t, testLongReadsInPieces) }

func testLongReadsInPieces(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<12)
	w := startWorker(t, func(_ int, p *peer) {
		for {
			if _, _, ok := p.request(); !ok {
				return
			}
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			for n := 1; len(answer) > 0; n = 3*n + 1 {
				n = min(n, len(answer))
				p.send(answer[:n])
				answer = answer[n:]
			}
		}
	})
	tr := newTransport(t, upstream.Config{ReadBuffer: 1024})
	for range 3 {
		resp, err := tr.Do(nil, post(w.addr()))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(body))
		if n, err := io.ReadFull(resp, got); err != nil || string(got) != body {
			t.Errorf("ReadFull = %d %v, or other bytes", n, err)
		}
		resp.Close()
		if n := tr.Idle(""); n != 1 {
			t.Errorf("Idle = %d, want 1", n)
		}
	}
}
