package upstream_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestRequestsInQuickSuccession: a request that follows at once on the same connection is sent
// in another way than the first.
func TestRequestsInQuickSuccession(t *testing.T) {
	large := strings.Repeat("x", 32<<20)
	type control struct {
		upstream.Canceler
		released chan struct{} // closed when the client has seen the end
	}
	tests := []struct {
		name       string
		body       string
		second     func(p *peer, c *control) // the act of the worker in place of a second answer
		wantStatus int
		wantErr    error
	}{
		{"is answered", "{}", func(p *peer, _ *control) {
			p.request()
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}, 200, nil},
		{"a large one arrives", large, func(p *peer, _ *control) {
			if _, body, _ := p.request(); body != large {
				p.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			}
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}, 200, nil},
		{"a large one is refused early", large, func(p *peer, c *control) {
			p.head()
			p.send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nok")
			<-c.released // its unread bytes would reset the answer
		}, 413, nil},
		{"canceled", "{}", func(p *peer, c *control) {
			p.request()
			c.Cancel()
			p.gone()
		}, 0, upstream.ErrCanceled},
		{"never answered", "{}", func(p *peer, _ *control) {
			p.request()
			p.gone()
		}, 0, upstream.ErrTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := control{released: make(chan struct{})}
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				tt.second(p, &c)
				p.gone()
			})
			t.Cleanup(func() { close(c.released) }) // before the worker is stopped
			tr := newTransport(t, upstream.Config{})
			if status, _, err := get(tr, post(w.addr())); status != 200 || err != nil {
				t.Fatalf("first request: %d %v", status, err)
			}
			ingresstest.Within(t, "second request", func() {
				req := post(w.addr(), tt.body)
				if errors.Is(tt.wantErr, upstream.ErrTimeout) {
					req.HeaderTimeout = 50 * time.Millisecond
				}
				resp, err := tr.Do(&c.Canceler, req)
				if tt.wantErr != nil {
					wantErr(t, "second request", err, tt.wantErr)
					return
				}
				if err != nil {
					t.Fatalf("second request: %v", err)
				}
				defer resp.Close()
				if body, err := io.ReadAll(resp); resp.Status != tt.wantStatus || string(body) != "ok" || err != nil {
					t.Errorf("second request: %d %q %v, want %d", resp.Status, body, err, tt.wantStatus)
				}
			})
		})
	}
}
