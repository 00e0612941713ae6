package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/request"
)

// closings are the ways in which servers, and proxies in front of them, end their connections.
var closings = map[string]struct {
	head  string // of an answer, without its length
	sized bool
	end   func(c *net.TCPConn)
}{
	"says that it closes":     {"HTTP/1.1 200 OK\r\nConnection: close\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"closes for the length":   {"HTTP/1.1 200 OK\r\nConnection: close\r\n", false, func(c *net.TCPConn) { _ = c.Close() }},
	"closes unannounced":      {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0":                {"HTTP/1.0 200 OK\r\n", false, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0 with a length":  {"HTTP/1.0 200 OK\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0 that stays":     {"HTTP/1.0 200 OK\r\n", true, nil},
	"closes its sending side": {"HTTP/1.1 200 OK\r\n", true, func(c *net.TCPConn) { _ = c.CloseWrite() }},
	"says one and does other": {"HTTP/1.1 200 OK\r\nConnection: close\r\n", true, nil},
}

// TestWorkersThatEndTheirConnections: however all workers, whole or of pairs, end the connections of
// their answers, each request has its answer, and no breaker has a fault.
func TestWorkersThatEndTheirConnections(t *testing.T) {
	t.Parallel()
	d := dialects["chat"]
	for name, closing := range closings {
		for _, pairs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pairs=%t", name, pairs), func(t *testing.T) {
				t.Parallel()
				answers := func(rw http.ResponseWriter, stream bool) {
					conn, _, err := http.NewResponseController(rw).Hijack()
					if err != nil {
						return
					}
					tcp, _ := conn.(*net.TCPConn)
					t.Cleanup(func() { _ = tcp.Close() })
					mime, body := "application/json", d.reply
					if stream {
						mime, body = "text/event-stream", d.begin+d.rest
					}
					head := closing.head + "Content-Type: " + mime + "\r\n"
					if closing.sized {
						head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
					}
					_, _ = io.WriteString(tcp, head+"\r\n"+body)
					if closing.end != nil {
						closing.end(tcp)
					}
				}
				var workers []*fakeWorker
				serves := func(w *fakeWorker, meets func(r *http.Request, b *pairBody) bool) {
					w.on("/abort_request", noAborts)
					w.on(d.path, func(rw http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						var b pairBody
						if json.Unmarshal(body, &b) == nil && meets(r, &b) {
							answers(rw, b.Stream)
						}
					})
					workers = append(workers, w)
				}
				if pairs {
					p, q := newPair(t, 2, 2, 1)
					for _, l := range append(p, q...) {
						serves(l.fakeWorker, func(r *http.Request, b *pairBody) bool { return l.waits(r, l.arrives(b)) })
					}
				} else {
					for range 2 {
						serves(newFakeWorker(t, info(1)), func(*http.Request, *pairBody) bool { return true })
					}
				}
				h := start(t, workers, trusting(t), withConfig(func(c *request.Config) { c.FirstByteTimeout = patience }))
				for _, stream := range []bool{false, true} {
					assert.Equal(t, healthyClients*closingEach, askWell(h, &d, stream, closingEach))
				}
				h.awaitIdle()
				for i, w := range workers {
					assert.Zero(t, h.worker(w).Breaker.Faults(), "worker %d", i)
					assert.True(t, h.worker(w).Breaker.Lets(time.Now().UnixNano()))
				}
			})
		}
	}
}
