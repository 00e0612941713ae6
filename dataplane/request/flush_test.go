package request_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// TestFlush: an operator empties all caches at once, hears of each worker that would not, and what was learnt from answers is forgotten.
func TestFlush(t *testing.T) {
	idle, busy := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	asked := make(chan string, 1)
	idle.on("/flush_cache", func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		_, _ = io.WriteString(rw, "Cache flushed.\n")
	})
	busy.on("/flush_cache", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(rw, "Flush cache failed.\n")
	})
	for _, w := range []*fakeWorker{idle, busy} {
		w.answers("/v1/chat/completions", chatReply(400, 0))
	}
	h := start(t, []*fakeWorker{idle, busy})
	for i := range 2 {
		h.post("/v1/chat/completions", chatBody(i, ""))
	}
	h.awaitEnded(2)
	require.NotZero(t, h.held())

	resp, body := h.post("/flush_cache?timeout=3", "")
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode, body)
	var told admin.Flushed
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	assert.Equal(t, admin.Flushed{
		Flushed: []string{idle.url}, Failed: []admin.FlushFailed{{URL: busy.url, Error: "status 400: Flush cache failed."}},
	}, told)
	assert.Equal(t, "POST /flush_cache?timeout=3", <-asked)
	for _, r := range h.registry.Snapshot().Ranks {
		if r.Worker.URL == idle.url {
			assert.Zero(t, h.router.Approx.Held(r))
		}
	}

	busy.on("/flush_cache", func(http.ResponseWriter, *http.Request) {})
	resp, body = h.post("/flush_cache", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	assert.Zero(t, h.held())
	resp, _, err := h.do(http.MethodGet, h.base+"/flush_cache", "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, "a link must not empty caches")
}

// TestFlushIsTheOperators: where operators have an address of their own, or a key, clients empty nothing.
func TestFlushIsTheOperators(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.on("/flush_cache", func(http.ResponseWriter, *http.Request) {})
	h := start(t, []*fakeWorker{w}, withOperator("secret"))
	for _, tt := range []struct {
		base, key string
		want      int
	}{{h.base, "secret", http.StatusNotFound}, {h.operator, "", http.StatusUnauthorized}, {h.operator, "secret", http.StatusOK}} {
		resp, _, err := h.do(http.MethodPost, tt.base+"/flush_cache", "", "Authorization", "Bearer "+tt.key)
		require.NoError(t, err)
		assert.Equal(t, tt.want, resp.StatusCode, tt)
	}
}
