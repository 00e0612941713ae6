package request_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestStalledClient: a client that takes nothing of its answer is cut. The worker's request is
// aborted, and the worker has no fault in it: it goes on to serve a client beside that reads.
func TestStalledClient(t *testing.T) { overBoth(t, testStalledClient) }

func testStalledClient(t *testing.T) {
	t.Helper()
	for name, kind := range map[string]string{"a stream": "text/event-stream", "a document": "application/json"} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			ended, next := make(chan struct{}), make(chan struct{})
			event := "data: " + strings.Repeat("x", 8<<10) + "\n\n"
			w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
				defer close(ended)
				rw.Header().Set("Content-Type", kind)
				for r.Context().Err() == nil {
					if _, err := io.WriteString(rw, event); err != nil {
						return
					}
				}
			})
			w.On("/v1/completions", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				for range next {
					_, _ = io.WriteString(rw, event)
					rw.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(rw, "data: [DONE]\n\n")
			})
			h := start(t, []*fakeWorker{w}, func(s *settings) { s.Request.Clients.Stall = 100 * time.Millisecond })
			ask := func(path, body string) (net.Conn, *bufio.Reader) {
				conn, br := h.dial()
				say(t, conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
				return conn, br
			}
			_, br := ask("/v1/completions", `{"model":"tiny","prompt":"x","stream":true}`)
			next <- struct{}{}
			resp, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			body := bufio.NewReader(resp.Body)
			stalled, _ := ask("/generate", `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9","text":"x","stream":true}`)
			shrink(t, stalled)
			for gone := false; !gone; { // each event is read before the next one is sent
				for range 2 {
					_, err := body.ReadString('\n')
					require.NoError(t, err)
				}
				select {
				case <-ended:
					gone = true
				case <-time.After(tick):
				}
				next <- struct{}{}
			}
			close(next)
			rest, err := io.ReadAll(body)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
			assert.Equal(t, `{"rid":"0a1b2c3d4e5f40718293a4b5c6d7e8f9"}`, <-w.Aborted)
			h.AwaitIdle()
			_, metrics := h.Do(http.MethodGet, h.Base+"/metrics", "")
			assert.Contains(t, metrics, `warmpath_client_connections_closed_total{reason="stalled"} 1`)
			assert.Contains(t, metrics, "warmpath_client_gone_total 1")
			assert.NotContains(t, metrics, "warmpath_answers_cut_total{")
			assert.Contains(t, metrics, "warmpath_retries_total 0")
			assert.Equal(t, worker.Ready, h.Registry.Snapshot().Workers[0].State())
			_, err = io.Copy(io.Discard, stalled)
			require.Error(t, err, "a part passes for the whole")
		})
	}
}

// shrink gives a client little room for bytes that it has not read.
func shrink(t *testing.T, conn net.Conn) {
	t.Helper()
	if s, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = s.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4<<10))
}
