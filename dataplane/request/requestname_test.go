package request_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

var madeName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// TestRequestName: a sane X-Request-ID of a client is the answer's, the worker's and the access log's; in place of another one the
// router makes its own. It never becomes the id by which requests are aborted.
func TestRequestName(t *testing.T) {
	w := newFakeWorker(t, info(1))
	got := make(chan http.Header, 1)
	answer := func(kind, body string, status int) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			got <- r.Header
			rw.Header().Add("X-Request-Id", "the-worker's")
			rw.Header().Add("X-Request-Id", "and-another")
			rw.Header().Set("Content-Type", kind)
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		}
	}
	w.On("/generate", answer("application/json", idsReply, http.StatusOK))
	w.On("/v1/completions", answer("text/event-stream", "data: {\"choices\":[{\"text\":\"\",\"delta\":{}}]}\n\ndata: [DONE]\n\n", http.StatusOK))
	w.On("/v1/embeddings", answer("application/json", "{}", http.StatusServiceUnavailable))
	logged, lines := withAccessLog(t)
	h := start(t, []*fakeWorker{w}, logged)
	var names []string
	for _, tt := range []struct {
		given []string
		kept  bool
	}{
		{[]string{"abc-123"}, true},
		{[]string{"!\"\\~"}, true},
		{[]string{strings.Repeat("x", 128)}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{strings.Repeat("x", 129)}, false},
		{[]string{"a b"}, false},
		{[]string{"a\tb"}, false},
		{[]string{"é"}, false},
		{[]string{"one", "two"}, false},
	} {
		for path, body := range map[string]string{
			"/generate": idsBody, "/v1/completions": `{"model":"tiny","prompt":"x","stream":true}`, "/v1/embeddings": `{"model":"tiny","input":"x"}`,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.Base+path, strings.NewReader(body))
			require.NoError(t, err)
			req.Header["X-Request-Id"] = tt.given
			req.Header.Set("Connection", "X-Request-Id") // takes away the client's own, not the router's
			if tt.kept {
				req.Header.Del("Connection")
			}
			resp, err := h.Client.Do(req)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			answered := resp.Header.Values("X-Request-Id")
			require.Len(t, answered, 1, "%s %q", path, tt.given)
			if tt.kept {
				assert.Equal(t, tt.given, answered)
			} else {
				assert.Regexp(t, madeName, answered[0])
			}
			assert.Equal(t, answered, (<-got).Values("X-Request-Id"), "at the worker")
			assert.NotContains(t, w.LastBody(), answered[0], "in the body")
			if path != "/v1/embeddings" { // no inference
				names = append(names, answered[0])
			}
		}
	}
	h.AwaitIdle()
	var written []string
	for _, line := range lines() {
		name, _ := line["request_id"].(string)
		written = append(written, name)
	}
	assert.ElementsMatch(t, names, written)
}

// TestRefusalsAreInTheAccessLog: those of the queue, of a pair's prefill worker, and requests whose clients left.
func TestRefusalsAreInTheAccessLog(t *testing.T) {
	w, began, finish := busyWorker(t)
	logged, lines := withAccessLog(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1, Max: 1}), logged)
	var wg sync.WaitGroup
	h.send(t.Context(), &wg, `{"text":"served"}`, "X-Request-Id", "served")
	<-began
	waiting, leave := context.WithCancel(t.Context())
	h.send(waiting, &wg, `{"text":"left"}`, "X-Request-Id", "left")
	h.awaitWaiting(1)
	resp, _ := h.Do(http.MethodPost, h.Base+"/generate", `{"text":"refused"}`, "X-Request-Id", "refused")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	leave()
	h.awaitWaiting(0)
	close(finish)
	wg.Wait()
	h.AwaitIdle()
	assert.Equal(t, map[any]any{"served": 200.0, "left": 499.0, "refused": 429.0}, statusByName(lines()))

	p, d := newPair(t, 1, 1, 1)
	p[0].does(says(http.StatusBadRequest, "application/json", "{}"))
	d[0].does(hangs)
	logged, lines = withAccessLog(t)
	h = startPair(t, p, d, logged)
	resp, _ = h.Do(http.MethodPost, h.Base+"/generate", idsBody, "X-Request-Id", "prefill")
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	h.AwaitIdle()
	assert.Equal(t, map[any]any{"prefill": 400.0}, statusByName(lines()))
}

// statusByName returns the status of each line of an access log by its request's name.
func statusByName(lines []map[string]any) map[any]any {
	out := map[any]any{}
	for _, line := range lines {
		out[line["request_id"]] = line["status"]
	}
	return out
}

// TestEveryAnswerHasAName: the router's own answers too, and refusals of requests that are not read to their end.
func TestEveryAnswerHasAName(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d, withOperator("key"))
	for _, tt := range []struct{ at, head, body string }{
		{h.Base, "GET /health", ""},
		{h.Base, "GET /v1/models", ""},
		{h.Base, "GET /server_info", ""},
		{h.Base, "GET /no/such/path", ""},
		{h.Base, "GET /generate", ""},
		{h.Base, "POST /abort_request", `{"rid":"x"}`},
		{h.Base, "POST /generate", "no JSON"},
		{h.Base, "POST /generate", `{"model":"no","text":"x"}`},
		{h.Base, "POST /generate", idsBody},
		{h.Base, "GET /a/../b", ""},
		{h.Operator, "GET /status", ""},
		{h.Operator, "GET /console", ""},
	} {
		for _, given := range []string{"", "mine"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(tt.at, "http://"))
			require.NoError(t, err)
			text := fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", tt.head, len(tt.body))
			if given != "" {
				text += "x-request-id: " + given + "\r\n"
			}
			_, err = io.WriteString(conn, text+"\r\n"+tt.body)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			got := resp.Header.Values("X-Request-Id")
			_ = resp.Body.Close()
			_ = conn.Close()
			require.Len(t, got, 1, "%s: %v", tt.head, resp.Header)
			if given == "" {
				assert.Regexp(t, madeName, got[0], tt.head)
			} else {
				assert.Equal(t, given, got[0], tt.head)
			}
		}
	}
	for _, raw := range []string{
		"GET / HTTP/2.0\r\nHost: x\r\nX-Request-ID: mine\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine\r\nBroken Field: x\r\n\r\n",
		"POST /generate HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
		"\x01\x02\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, raw)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, "%.40q", raw)
		_ = resp.Body.Close()
		_ = conn.Close()
		assert.NotEmpty(t, resp.Header.Get("X-Request-Id"), "%.40q", raw)
	}
}

// TestAbortsAreLoggedByName: log lines about a request have its name.
func TestAbortsAreLoggedByName(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.On("/abort_request", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) })
	begun := make(chan struct{})
	w.On("/generate", func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	log := &testkit.Text{}
	h := start(t, []*fakeWorker{w}, withConfig(func(c *request.Config) { c.Log = log.Log() }))
	defer h.hold("/generate", `{"text":"x","rid":"x"}`)()
	<-begun
	resp, _ := h.Do(http.MethodPost, h.Base+"/abort_request", `{"rid":"x"}`, "X-Request-Id", "mine")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "refuses aborts") }, patience, tick)
	assert.Contains(t, log.String(), "request_id=mine")
}

// TestLegsHaveTheName: both workers of a pair get it.
func TestLegsHaveTheName(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	got := make(chan string, 2)
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			got <- r.Header.Get("X-Request-Id")
			meets(l, rw, r, b)
		})
	}
	h := startPair(t, p, d)
	resp, body := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "X-Request-Id", "mine")
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	assert.Equal(t, []string{"mine", "mine"}, []string{<-got, <-got})
	assert.Equal(t, "mine", resp.Header.Get("X-Request-Id"))
}
