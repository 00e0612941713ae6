package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// TestFlush: an operator flushes all workers at once and gets the error of each that failed; the
// approximate tree forgets the flushed ones.
func TestFlush(t *testing.T) {
	idle, busy := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	asked := make(chan string, 1)
	idle.On("/flush_cache", func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		_, _ = io.WriteString(rw, "Cache flushed.\n")
	})
	busy.On("/flush_cache", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(rw, "Flush cache failed.\n")
	})
	for _, w := range []*fakeWorker{idle, busy} {
		w.Answers("/v1/chat/completions", `{"choices":[{"text":"","message":{"content":""}}],"usage":{"prompt_tokens":400,"prompt_tokens_details":{"cached_tokens":0}}}`)
	}
	h := start(t, []*fakeWorker{idle, busy})
	for i := range 2 {
		h.Post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"`+strings.Repeat(strconv.Itoa(i)+" words ", 200)+`"}]}`)
	}
	h.AwaitIdle()
	require.NotZero(t, h.Held())

	resp, body := h.Post("/flush_cache?timeout=3", "")
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode, body)
	var told admin.Flushed
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	assert.Equal(t, admin.Flushed{
		Flushed: []string{idle.URL}, Failed: []admin.FailedWorker{{URL: busy.URL, Error: "status 400: Flush cache failed."}},
	}, told)
	assert.Equal(t, "POST /flush_cache?timeout=3", <-asked)
	for _, r := range h.Registry.Snapshot().Ranks {
		if r.Worker.URL == idle.URL {
			assert.Zero(t, h.Routing.Approx.Held(r))
		}
	}

	busy.On("/flush_cache", func(http.ResponseWriter, *http.Request) {})
	resp, body = h.Post("/flush_cache", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	assert.Zero(t, h.Held())
	<-asked
	for _, browser := range [][]string{
		{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "none"}, {"Referer", "http://evil.example/"},
	} {
		resp, body = h.Do(http.MethodGet, h.Base+"/flush_cache", "", browser...)
		assert.Equal(t, http.StatusForbidden, resp.StatusCode, "a link must not flush caches: %v %s", browser, body)
	}
	assert.Empty(t, asked)
	resp, body = h.Do(http.MethodGet, h.Base+"/flush_cache?timeout=3", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	assert.Equal(t, "POST /flush_cache?timeout=3", <-asked)
	resp, _ = h.Do(http.MethodDelete, h.Base+"/flush_cache", "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// TestAllWorkersAreTold: adapters and profiles are of each worker, which gets the operator's body.
func TestAllWorkersAreTold(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	const body = `{"lora_name":"poet","lora_path":"/adapters/poet"}`
	for _, path := range []string{"/load_lora_adapter", "/unload_lora_adapter", "/start_profile", "/stop_profile"} {
		a.Answers(path, `{"success":true}`)
	}
	b.On("/load_lora_adapter", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no such folder", http.StatusBadRequest) })
	h := start(t, []*fakeWorker{a, b})
	resp, got := h.Post("/load_lora_adapter", body)
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
	var told admin.Told
	require.NoError(t, json.Unmarshal([]byte(got), &told))
	assert.Equal(t, admin.Told{Done: []string{a.URL}, Failed: []admin.FailedWorker{{URL: b.URL, Error: "status 400: no such folder"}}}, told)
	assert.Equal(t, []string{body, body}, []string{a.LastBody(), b.LastBody()})
	resp, got = h.Post("/start_profile", "")
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Contains(t, got, `"done":["`+a.URL+`"]`)
	resp, _ = h.Do(http.MethodGet, h.Base+"/load_lora_adapter", "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// TestFlushIsForOperators: with a listener for operators, clients cannot flush.
func TestFlushIsForOperators(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.On("/flush_cache", func(http.ResponseWriter, *http.Request) {})
	h := start(t, []*fakeWorker{w}, withOperator("secret"))
	for _, tt := range []struct {
		base, key string
		want      int
	}{{h.Base, "secret", http.StatusNotFound}, {h.Operator, "", http.StatusUnauthorized}, {h.Operator, "secret", http.StatusOK}} {
		resp, got := h.Do(http.MethodPost, tt.base+"/flush_cache", "", "Authorization", "Bearer "+tt.key)
		assert.Equal(t, tt.want, resp.StatusCode, tt)
		if tt.want == http.StatusNotFound {
			assert.Contains(t, got, "--operator-listen", "it says where")
		}
	}
}

// TestRefusalsAreCounted: an operator with the right key waits for nobody who guesses.
func TestRefusalsAreCounted(t *testing.T) {
	h := start(t, []*fakeWorker{newFakeWorker(t, info(1))}, withOperator("secret"))
	right := []string{"Authorization", "Bearer secret"}
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Basic secret"}, {"Origin", "http://evil.example"}} {
		resp, got := h.Do(http.MethodGet, h.Operator+"/status", "", header...)
		assert.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, resp.StatusCode, got)
		resp, got = h.Do(http.MethodGet, h.Operator+"/status", "", right...)
		assert.Equal(t, http.StatusOK, resp.StatusCode, got)
	}
	_, got := h.Do(http.MethodGet, h.Operator+"/metrics", "", right...)
	for _, line := range []string{`{reason="no_key"} 1`, `{reason="wrong_key"} 2`, `{reason="foreign"} 1`} {
		assert.Contains(t, got, "warmpath_operator_refused_total"+line)
	}
}
