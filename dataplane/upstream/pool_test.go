package upstream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// conns counts connections through the number that serve is given.
type conns struct{ seen chan int }

func (c conns) serve(answer string) func(int, *peer) {
	return func(nth int, p *peer) {
		for {
			if _, _, alive := p.request(); !alive {
				return
			}
			c.seen <- nth
			p.send(answer)
		}
	}
}

func TestReuse(t *testing.T) { tlstest.OverBoth(t, testReuse) }

func testReuse(t *testing.T) {
	tests := []struct {
		name, answer string
		reuse        bool
	}{
		{"content-length", ok, true},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"close", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", false},
		{"close in a list", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-A, Close\r\n\r\nok", false},
		{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		{"1.0 keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", true},
		{"bytes after the body", ok + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := conns{make(chan int, 2)}
			w := startWorker(t, c.serve(tt.answer))
			tr := newTransport(t, upstream.Config{})
			for range 2 {
				if _, body, err := get(tr, post(w.addr(), "{}")); body != "ok" || err != nil {
					t.Fatalf("get = %q %v", body, err)
				}
			}
			if first, second := <-c.seen, <-c.seen; (first == second) != tt.reuse {
				t.Errorf("connections %d and %d, want reuse %v", first, second, tt.reuse)
			}
		})
	}
}

// TestCloseWithoutEOF closes after the last data byte: the terminating chunk is there, nobody
// read it.
func TestCloseWithoutEOF(t *testing.T) { tlstest.OverBoth(t, testCloseWithoutEOF) }

func testCloseWithoutEOF(t *testing.T) {
	tests := []struct {
		name, answer string
		read, idle   int
	}{
		{"fixed, all read", ok, 2, 1},
		{"fixed, half read", ok, 1, 0},
		{"chunked, all read", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 2, 1},
		{"chunked, half read", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, each(tt.answer))
			tr := newTransport(t, upstream.Config{})
			resp, err := tr.Do(nil, post(w.addr()))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := resp.Read(make([]byte, tt.read)); n != tt.read || err != nil {
				t.Fatalf("Read = %d %v", n, err)
			}
			resp.Close()
			if n := tr.Idle(""); n != tt.idle {
				t.Errorf("Idle = %d, want %d", n, tt.idle)
			}
		})
	}
}

// TestStaleConnection has the worker close kept-alive connections; each next request must not
// notice.
func TestStaleConnection(t *testing.T) { tlstest.OverBoth(t, testStaleConnection) }

func testStaleConnection(t *testing.T) {
	for _, reset := range []bool{false, true} {
		t.Run(map[bool]string{false: "fin", true: "reset"}[reset], func(t *testing.T) {
			closed := make(chan struct{}, 1)
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(ok)
				if reset {
					p.reset()
				}
				p.Close()
				closed <- struct{}{}
			})
			tr := newTransport(t, upstream.Config{})
			for i := range 5 {
				if _, body, err := get(tr, post(w.addr(), "{}")); body != "ok" || err != nil {
					t.Fatalf("request %d = %q %v", i, body, err)
				}
				<-closed
			}
		})
	}
}

// TestRetryOnlyOnce and only where nothing was received.
func TestRetryOnlyOnce(t *testing.T) { tlstest.OverBoth(t, testRetryOnlyOnce) }

func testRetryOnlyOnce(t *testing.T) {
	tests := []struct {
		name, later string // the answer to every request but the very first, before the connection ends
		want        error
		requests    int
	}{
		{"dies each time", "", upstream.ErrNoResponse, 3},
		{"dies after a byte", "H", upstream.ErrTruncated, 2},
		{"dies after an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", upstream.ErrTruncated, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := make(chan string, 8)
			w := startWorker(t, func(nth int, p *peer) {
				for i := 0; ; i++ {
					_, body, alive := p.request()
					if !alive {
						return
					}
					seen <- body
					if nth > 0 || i > 0 {
						p.send(tt.later)
						return
					}
					p.send(ok)
				}
			})
			tr := newTransport(t, upstream.Config{})
			if _, _, err := get(tr, post(w.addr(), "a")); err != nil {
				t.Fatal(err)
			}
			_, _, err := get(tr, post(w.addr(), "b", "c"))
			wantErr(t, "second", err, tt.want)
			if len(seen) != tt.requests {
				t.Errorf("worker saw %d requests, want %d", len(seen), tt.requests)
			}
			<-seen
			for len(seen) > 0 {
				if body := <-seen; body != "bc" {
					t.Errorf("worker got %q, want %q: a retry sends all of the body again", body, "bc")
				}
			}
		})
	}
}

func TestIdleLimits(t *testing.T) { tlstest.OverBoth(t, testIdleLimits) }

func testIdleLimits(t *testing.T) {
	w := startWorker(t, each(ok))
	tr := newTransport(t, upstream.Config{MaxIdlePerTarget: 2})
	var open []*upstream.Response
	for range 4 {
		resp, err := tr.Do(nil, post(w.addr()))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	for _, r := range open {
		r.Read(make([]byte, 2))
		r.Close()
	}
	if n := tr.Idle(w.addr()); n != 2 {
		t.Errorf("Idle = %d, want the limit of 2", n)
	}
	if n := tr.Idle("127.0.0.1:1"); n != 0 {
		t.Errorf("Idle of a stranger = %d, want 0", n)
	}
	inUse, err := tr.Do(nil, post(w.addr()))
	if err != nil {
		t.Fatal(err)
	}
	tr.Renew(w.addr())
	inUse.Read(make([]byte, 2))
	inUse.Close()
	if n := tr.Idle(""); n != 0 {
		t.Errorf("Idle after Renew = %d, want 0", n)
	}
}

func TestIdleTimeout(t *testing.T) { tlstest.OverBoth(t, testIdleTimeout) }

func testIdleTimeout(t *testing.T) {
	c := conns{make(chan int, 2)}
	w := startWorker(t, c.serve(ok))
	tr := newTransport(t, upstream.Config{IdleTimeout: time.Nanosecond})
	for range 2 {
		if _, _, err := get(tr, post(w.addr())); err != nil {
			t.Fatal(err)
		}
	}
	if first, second := <-c.seen, <-c.seen; first == second {
		t.Errorf("a connection was reused after its idle timeout")
	}
	tr.Sweep()
	if n := tr.Idle(""); n != 0 {
		t.Errorf("Idle after Sweep = %d, want 0", n)
	}
}

func TestTransportClose(t *testing.T) { tlstest.OverBoth(t, testTransportClose) }

func testTransportClose(t *testing.T) {
	w := startWorker(t, each("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)))
	tr := upstream.NewTransport(upstream.Config{DialTimeout: ingresstest.Patience})
	resp, err := tr.Do(nil, post(w.addr()))
	if err != nil {
		t.Fatal(err)
	}
	tr.Close()
	tr.Close()
	n := 0
	for buf := make([]byte, 4096); err == nil; {
		var m int
		m, err = resp.Read(buf)
		n += m
	}
	resp.Close()
	if n != 100_000 {
		t.Errorf("read %d bytes after Close, want 100000: requests in flight go on", n)
	}
	if n := tr.Idle(""); n != 0 {
		t.Errorf("Idle = %d, want 0", n)
	}
	_, err = tr.Do(nil, post(w.addr()))
	wantErr(t, "Do after Close", err, upstream.ErrClosed)
}

// TestTargetsAreForgotten: a target without connections and requests leaves nothing, and may come back.
func TestTargetsAreForgotten(t *testing.T) {
	c := conns{make(chan int, 100)}
	w, gone := startWorker(t, c.serve(ok)), startWorker(t, c.serve(ok))
	tr := newTransport(t, upstream.Config{})
	for range 2 {
		for _, addr := range []string{w.addr(), gone.addr()} {
			if _, body, err := get(tr, post(addr, "{}")); body != "ok" || err != nil {
				t.Fatalf("get = %q %v", body, err)
			}
		}
		tr.Renew(gone.addr())
		tr.Sweep()
		if n := tr.Targets(); n != 2 {
			t.Fatalf("%d targets, want 2: it had a request just now", n)
		}
		tr.Sweep()
		if n, idle := tr.Targets(), tr.Idle(w.addr()); n != 1 || idle != 1 {
			t.Fatalf("%d targets and %d connections, want the one in use", n, idle)
		}
	}
}
