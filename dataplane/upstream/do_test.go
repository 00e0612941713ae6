package upstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestAnswers sends one request to workers that behave, well or badly, and checks the result of
// it.
func TestAnswers(t *testing.T) { tlstest.OverBoth(t, testAnswers) }

func testAnswers(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	tests := []struct {
		name   string
		answer string // sent after the whole request was read; then the connection is closed
		reset  bool   // closed with RST
		status int
		body   string
		err    error
	}{
		{name: "content-length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "empty", answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200},
		{name: "larger than the buffer", answer: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + big, status: 200, body: big},
		{name: "chunked", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, body: "hello"},
		{
			name: "chunk extensions and trailers", status: 200, body: "hello world",
			answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n5;a=\"b\"\r\nhello\r\n06 ;c\r\n world\r\n0;z\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
		},
		{name: "to the end", answer: "HTTP/1.0 200 OK\r\n\r\nhello", status: 200, body: "hello"},
		{name: "to the end 1.1", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", status: 200, body: "hello"},
		{name: "no content", answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "not modified with length", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304},
		{name: "continue first", answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "error status", answer: "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", status: 503, body: "busy"},

		{name: "nothing", err: upstream.ErrNoResponse},
		{name: "nothing, reset", reset: true, err: upstream.ErrNoResponse},
		{name: "half a header", answer: "HTTP/1.1 200 OK\r\nContent-Le", err: upstream.ErrTruncated},
		{name: "interim only", answer: "HTTP/1.1 100 Continue\r\n\r\n", err: upstream.ErrTruncated},
		{name: "endless interim", answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9), err: upstream.ErrBadResponse},
		{name: "switching protocols", answer: "HTTP/1.1 101 Switching Protocols\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "garbage", answer: "\x16\x03\x01 what\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http2", answer: "HTTP/2.0 200 OK\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http 1.2", answer: "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http 1.2, chunked", answer: "HTTP/1.2 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http 1.0, chunked", answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http 1.0, chunked, in small letters", answer: "HTTP/1.0 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "http 1.0, chunked, with a length", answer: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "status 000", answer: "HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "empty line first", answer: "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "status of two digits", answer: "HTTP/1.1 20 OK\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "unknown coding", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx", err: upstream.ErrBadResponse},
		{name: "two lengths", answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", err: upstream.ErrBadResponse},
		{name: "negative length", answer: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nxx", err: upstream.ErrBadResponse},
		{name: "huge header", answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 40_000) + "\r\n\r\n", err: upstream.ErrBadResponse},
		{name: "header over the limit, within the buffer", answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + strings.Repeat("y", 6000) + "\r\n\r\n", err: upstream.ErrBadResponse},

		{name: "body cut", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", status: 200, body: "hello", err: upstream.ErrTruncated},
		{name: "reset after header", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", reset: true, status: 200, err: upstream.ErrTruncated},
		{name: "chunk cut", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", status: 200, body: "hello", err: upstream.ErrTruncated},
		{name: "no last chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", status: 200, body: "hello", err: upstream.ErrTruncated},
		{name: "trailer cut", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", status: 200, err: upstream.ErrTruncated},
		{name: "bad chunk size", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n", status: 200, body: "hello", err: upstream.ErrBadResponse},
		{name: "chunk without end", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloworld", status: 200, body: "hello", err: upstream.ErrBadResponse},
		{name: "endless trailers", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 2000), status: 200, err: upstream.ErrBadResponse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(tt.answer)
				if tt.reset {
					p.reset()
				}
			})
			tr := newTransport(t, upstream.Config{MaxHeaderBytes: 4096})
			status, body, err := get(tr, post(w.addr(), "{}"))
			wantErr(t, "get", err, tt.err)
			// After a reset the kernel may drop bytes that had arrived.
			if status != tt.status && !tt.reset || body != tt.body {
				t.Errorf("get = %d %.20q, want %d %.20q", status, body, tt.status, tt.body)
			}
		})
	}
}

func TestHeadHasNoBody(t *testing.T) { tlstest.OverBoth(t, testHeadHasNoBody) }

func testHeadHasNoBody(t *testing.T) {
	w := startWorker(t, each("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
	tr := newTransport(t, upstream.Config{})
	for range 2 {
		req := post(w.addr())
		req.Method = []byte("HEAD")
		if status, body, err := get(tr, req); status != 200 || body != "" || err != nil {
			t.Fatalf("get = %d %q %v, want 200 without body", status, body, err)
		}
	}
	if n := tr.Idle(w.addr()); n != 1 {
		t.Errorf("Idle = %d, want 1", n)
	}
}

func TestRefusedIsDialError(t *testing.T) {
	// A port that no other process is given, as it might one that was just closed.
	_, _, err := get(newTransport(t, upstream.Config{}), post("127.0.0.1:1"))
	wantErr(t, "get", err, upstream.ErrDial)
}

func TestTimeouts(t *testing.T) { tlstest.OverBoth(t, testTimeouts) }

func testTimeouts(t *testing.T) {
	const short = 20 * time.Millisecond
	tests := []struct {
		name         string
		answer       string
		header, read time.Duration
	}{
		{name: "before header", header: short},
		{name: "between interim and final", answer: "HTTP/1.1 100 Continue\r\n\r\n", header: short},
		{name: "inside header", answer: "HTTP/1.1 200 OK\r\nX", read: short},
		{name: "inside body", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", read: short},
		{name: "inside chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", read: short},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(tt.answer)
				p.gone()
			})
			req := post(w.addr(), "{}")
			req.HeaderTimeout, req.ReadTimeout = tt.header, tt.read
			ingresstest.Within(t, "get", func() {
				_, _, err := get(newTransport(t, upstream.Config{}), req)
				wantErr(t, "get", err, upstream.ErrTimeout)
				if errors.Is(err, upstream.ErrDial) || errors.Is(err, upstream.ErrNoResponse) {
					t.Errorf("the error is %v, as if there were no answer", err)
				}
			})
		})
	}
}

// TestReadTimeoutIsPerRead streams for several times the timeout: pieces keep the stream alive.
func TestReadTimeoutIsPerRead(t *testing.T) { tlstest.OverBoth(t, testReadTimeoutIsPerRead) }

func testReadTimeoutIsPerRead(t *testing.T) {
	const pieces, gaps = 30, 20 // gaps to a limit
	var err error
	for gap := 20 * time.Millisecond; gap < 2*time.Second; gap *= 3 { // a busy machine may make one of them longer than a limit
		w := startWorker(t, func(_ int, p *peer) {
			p.request()
			p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range pieces {
				time.Sleep(gap)
				p.send("1\r\nx\r\n")
			}
			p.send("0\r\n\r\n")
		})
		req := post(w.addr(), "{}")
		req.HeaderTimeout, req.ReadTimeout = ingresstest.Patience, gaps*gap
		var body string
		if _, body, err = get(newTransport(t, upstream.Config{}), req); err == nil && len(body) == pieces {
			return
		}
	}
	t.Errorf("get = %v, again and again", err)
}

func TestEarlyAnswerToLargeBody(t *testing.T) { tlstest.OverBoth(t, testEarlyAnswerToLargeBody) }

func testEarlyAnswerToLargeBody(t *testing.T) {
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"
	large := strings.Repeat("x", 64<<20)
	tests := []struct {
		name  string
		serve func(*peer, <-chan struct{})
	}{
		{"worker waits without reading", func(p *peer, released <-chan struct{}) {
			p.head()
			p.send(answer)
			<-released
		}},
		{"worker closes its sending side", func(p *peer, _ <-chan struct{}) {
			p.head()
			p.send(answer)
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			p.gone()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			released := make(chan struct{})
			w := startWorker(t, func(_ int, p *peer) { tt.serve(p, released) })
			t.Cleanup(func() { close(released) })
			tr := newTransport(t, upstream.Config{})
			ingresstest.Within(t, "get", func() {
				status, body, err := get(tr, post(w.addr(), large))
				if status != 413 || body != "big" || err != nil {
					t.Errorf("get = %d %q %v, want 413 big", status, body, err)
				}
			})
			if n := tr.Idle(""); tt.name == "worker waits without reading" && n != 0 {
				t.Errorf("Idle = %d after an unfinished request, want 0", n)
			}
		})
	}
}

// TestLargeBodyArrives sends more than any socket buffer holds, in parts, and reuses the
// connection.
func TestLargeBodyArrives(t *testing.T) { tlstest.OverBoth(t, testLargeBodyArrives) }

func testLargeBodyArrives(t *testing.T) {
	part := strings.Repeat("0123456789abcdef", 1<<18)
	sizes := make(chan int, 2)
	w := startWorker(t, func(_ int, p *peer) {
		for {
			_, body, ok := p.request()
			if !ok {
				return
			}
			if body != part+part+part {
				body = ""
			}
			sizes <- len(body)
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	tr := newTransport(t, upstream.Config{})
	for range 2 {
		if _, body, err := get(tr, post(w.addr(), part, "", part, part)); body != "ok" || err != nil {
			t.Fatalf("get = %q %v", body, err)
		}
		if n := <-sizes; n != 3*len(part) {
			t.Fatalf("worker got %d bytes, or others; want %d", n, 3*len(part))
		}
	}
	if n := tr.Idle(""); n != 1 {
		t.Errorf("Idle = %d, want 1: the second request reuses the connection", n)
	}
}

// TestBodyInParts: long parts, which no socket takes at once, keep their places among short
// ones.
func TestBodyInParts(t *testing.T) { tlstest.OverBoth(t, testBodyInParts) }

func testBodyInParts(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 6<<16) // 6 MB
	tests := [][]string{{long}, {"a", long, "b", "c", long + "d", "e"}, {long, long}, {"a", "b", long[:1<<20-1], long[:1<<20], "c"}}
	for _, parts := range tests {
		got := make(chan string, 1)
		w := startWorker(t, func(_ int, p *peer) {
			_, body, _ := p.request()
			got <- body
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			p.gone()
		})
		ingresstest.Within(t, "get", func() {
			if status, _, err := get(newTransport(t, upstream.Config{}), post(w.addr(), parts...)); status != 200 || err != nil {
				t.Errorf("get = %d %v, want 200", status, err)
			}
		})
		if <-got != strings.Join(parts, "") {
			t.Errorf("%d parts came as another body", len(parts))
		}
	}
}
