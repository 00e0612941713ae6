package admin_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWebPagesAreRefused: a page in a browser on the operator's machine changes nothing and reads
// nothing, whether the operators' API has a listener of its own or not; the console and curl go on.
func TestWebPagesAreRefused(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.On("/flush_cache", func(http.ResponseWriter, *http.Request) {})
	h := start(t, []*fakeWorker{w})
	other := newFakeWorker(t, info(1))
	for _, tt := range []struct{ method, path string }{
		{http.MethodPost, "/workers"},
		{http.MethodDelete, "/workers?url=" + w.URL},
		{http.MethodPost, "/workers/drain"},
		{http.MethodPost, "/workers/cordon"},
		{http.MethodPost, "/flush_cache"},
		{http.MethodPost, "/load_lora_adapter"},
		{http.MethodPost, "/add_worker?url=" + other.URL},
		{http.MethodPost, "/remove_worker?url=" + w.URL},
		{http.MethodGet, "/get_loads"},
		{http.MethodPost, "/explain"},
		{http.MethodGet, "/status"},
		{http.MethodGet, "/metrics"},
		{http.MethodGet, "/workers"},
		{http.MethodGet, "/debug/index"},
		{http.MethodGet, "/console"},
		{http.MethodGet, "/console/console.js"},
		{http.MethodGet, "/history"},
		{http.MethodGet, "/"},
		{http.MethodGet, "/debug/pprof/"},
		{http.MethodGet, "/debug/pprof/heap"},
		{http.MethodGet, "/debug/pprof/profile?seconds=1"},
	} {
		for _, header := range [][]string{
			{"Origin", "http://evil.example"},
			{"Origin", "null"},
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
			{"Host", "evil.example"},
			{"Host", "evil.example:8001", "Origin", "http://evil.example:8001", "Sec-Fetch-Site", "same-origin"},
		} {
			resp, got := h.Do(tt.method, h.Operator+tt.path, `{"url":"`+other.URL+`"}`, header...)
			assert.Equal(t, http.StatusForbidden, resp.StatusCode, "%s %s %q: %s", tt.method, tt.path, header, got)
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	resp, got := h.Do(http.MethodPost, h.Operator+"/workers", `{"url":"`+other.URL+`"}`, "Content-Type", "text/plain")
	assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode)
	assert.Contains(t, got, "Content-Type: application/json", "it says what to add")
	assert.Len(t, h.Registry.Snapshot().Workers, 1)
	assert.Empty(t, w.LastBody(), "no worker heard of it")

	for _, header := range [][]string{nil, {"Origin", h.Operator, "Sec-Fetch-Site", "same-origin"}, {"Content-Type", ""}} {
		resp, got = h.Do(http.MethodGet, h.Operator+"/status", "", header...)
		assert.Equal(t, http.StatusOK, resp.StatusCode, got)
		resp, got = h.Do(http.MethodPost, h.Operator+"/workers", `{"url":"`+other.URL+`"}`, header...)
		assert.Equal(t, http.StatusOK, resp.StatusCode, got)
		resp, _ = h.Do(http.MethodDelete, h.Operator+"/workers?url="+other.URL, "", header...)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
	resp, _ = h.Do(http.MethodGet, h.Operator+"/health", "", "Host", "evil.example")
	assert.Equal(t, http.StatusOK, resp.StatusCode, "a load balancer asks by any name")
}

// TestKeyAndOrigin: with a key any name will do, since a page has none; its Origin still counts.
func TestKeyAndOrigin(t *testing.T) {
	h := start(t, nil, withOperator("secret"))
	resp, _ := h.Do(http.MethodGet, h.Operator+"/status", "", "Authorization", "Bearer secret", "Host", "router.example")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	resp, _ = h.Do(http.MethodPost, h.Operator+"/workers", `{"url":"http://127.0.0.1:1"}`, "Authorization", "Bearer secret", "Origin", "http://evil.example")
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
	assert.Empty(t, h.Registry.Snapshot().Workers)
}
