package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestCancel cancels while a request waits at each of its phases, and checks that the worker's
// side of the connection ends.
func TestCancel(t *testing.T) { tlstest.OverBoth(t, testCancel) }

func testCancel(t *testing.T) {
	const chunkHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	large := strings.Repeat("x", 64<<20)
	tests := []struct {
		name, body, answer string
		unread             bool // the worker does not read the request
		read               int  // body bytes that arrive before the cancel
	}{
		{name: "before the header"},
		{name: "while sending", body: large, unread: true},
		{name: "inside the header", answer: "HTTP/1.1 200"},
		{name: "before the body", answer: chunkHead},
		{name: "inside the body", answer: chunkHead + "5\r\nhello\r\n", read: 5},
		{name: "before the last chunk", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", read: 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sent, ended := make(chan struct{}), make(chan struct{})
			w := startWorker(t, func(_ int, p *peer) {
				if tt.unread {
					p.head()
				} else {
					p.request()
				}
				p.send(tt.answer)
				close(sent)
				p.gone()
				close(ended)
			})
			tr := newTransport(t, upstream.Config{})
			var c upstream.Canceler
			reading := make(chan struct{})
			go func() {
				<-sent
				if tt.read > 0 {
					<-reading
				}
				c.Cancel()
				c.Cancel()
			}()
			ingresstest.Within(t, "request", func() {
				resp, err := tr.Do(&c, post(w.addr(), tt.body))
				if err == nil {
					if tt.read > 0 {
						io.ReadFull(resp, make([]byte, tt.read))
						close(reading)
					}
					_, err = io.ReadAll(resp)
					resp.Close()
				}
				wantErr(t, "request", err, upstream.ErrCanceled)
				if errors.Is(err, upstream.ErrUnsent) {
					t.Errorf("the worker has seen some of the request: %v", err)
				}
				<-ended
			})
			if n := tr.Idle(""); n != 0 {
				t.Errorf("Idle = %d, want 0", n)
			}
			if !c.Canceled() {
				t.Error("Canceled = false after Cancel")
			}
		})
	}
}

func TestCancelBeforeDo(t *testing.T) { tlstest.OverBoth(t, testCancelBeforeDo) }

func testCancelBeforeDo(t *testing.T) {
	w := startWorker(t, each(ok))
	tr := newTransport(t, upstream.Config{})
	get(tr, post(w.addr())) // Leaves an idle connection: that path is checked too.
	var c upstream.Canceler
	c.Cancel()
	_, err := tr.Do(&c, post(w.addr()))
	wantErr(t, "Do", err, upstream.ErrCanceled)
	wantErr(t, "Do", err, upstream.ErrUnsent)
	c.Reset()
	resp, err := tr.Do(&c, post(w.addr()))
	if err != nil {
		t.Fatalf("Do after Reset: %v", err)
	}
	resp.Close()
}

// TestCancelDuringDial dials a listener whose accept queue is full, so the SYN gets no answer.
func TestCancelDuringDial(t *testing.T) {
	addr, fill := silentListener(t)
	defer fill()
	var c upstream.Canceler
	started := make(chan struct{})
	go func() { <-started; c.Cancel() }()
	ingresstest.Within(t, "Do", func() {
		close(started)
		_, err := newTransport(t, upstream.Config{DialTimeout: ingresstest.Patience}).Do(&c, post(addr))
		wantErr(t, "Do", err, upstream.ErrCanceled)
		wantErr(t, "Do", err, upstream.ErrUnsent)
	})
}

// TestCancelAfterEnd must not touch the connection, which is idle or someone else's by then.
func TestCancelAfterEnd(t *testing.T) { tlstest.OverBoth(t, testCancelAfterEnd) }

func testCancelAfterEnd(t *testing.T) {
	w := startWorker(t, each(ok))
	tr := newTransport(t, upstream.Config{})
	var c upstream.Canceler
	resp, err := tr.Do(&c, post(w.addr()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp); err != nil {
		t.Fatal(err)
	}
	other, err := tr.Do(nil, post(w.addr())) // Takes the connection over, before Close even.
	if err != nil {
		t.Fatal(err)
	}
	c.Cancel()
	resp.Close()
	if b, err := io.ReadAll(other); string(b) != "ok" || err != nil {
		t.Errorf("the other request = %q %v, want ok", b, err)
	}
	other.Close()
}

// TestConcurrentStreams runs 200 streams at once, some canceled in the middle.
func TestConcurrentStreams(t *testing.T) { tlstest.OverBoth(t, testConcurrentStreams) }

func testConcurrentStreams(t *testing.T) {
	const streams, chunks = 80, 20
	w := startWorker(t, func(_ int, p *peer) {
		for {
			_, body, alive := p.request()
			if !alive {
				return
			}
			p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for i := range chunks {
				piece := fmt.Sprintf("data: %s %d\n\n", body, i)
				p.send(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
			}
			p.send("0\r\n\r\n")
		}
	})
	tr := newTransport(t, upstream.Config{ReadBuffer: 512})
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			var want strings.Builder
			for k := range chunks {
				fmt.Fprintf(&want, "data: %d %d\n\n", i, k)
			}
			for round := range 3 {
				var c upstream.Canceler
				resp, err := tr.Do(&c, post(w.addr(), strconv.Itoa(i)))
				if err != nil {
					t.Errorf("Do: %v", err)
					return
				}
				if (i+round)%4 == 0 {
					go c.Cancel()
				}
				b, err := io.ReadAll(resp)
				resp.Close()
				if !strings.HasPrefix(want.String(), string(b)) || err == nil && len(b) != want.Len() {
					t.Errorf("stream %d = %d bytes %v, want %d", i, len(b), err, want.Len())
				}
				if err != nil && !c.Canceled() {
					t.Errorf("stream %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// silentListener returns an address that does not answer a SYN: nobody accepts and the queue is
// full.
func silentListener(t *testing.T) (addr string, release func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := shrinkBacklog(ln.(*net.TCPListener)); err != nil {
		ln.Close()
		t.Skipf("cannot shrink the accept queue: %v", err)
	}
	var held []net.Conn
	d := net.Dialer{Timeout: 200e6}
	for range 8 {
		c, err := d.Dial("tcp", ln.Addr().String())
		if err != nil {
			break
		}
		held = append(held, c)
	}
	return ln.Addr().String(), func() {
		ln.Close()
		for _, c := range held {
			c.Close()
		}
	}
}
