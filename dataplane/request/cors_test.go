package request_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/origin"
)

const page = "https://app.example"

// allowing has pages of some origins call the clients' API.
func allowing(t *testing.T, origins ...string) option {
	t.Helper()
	allowed, err := origin.ParseAllowed(origins)
	require.NoError(t, err)
	return func(s *settings) { s.Request.Origins = allowed }
}

// TestPagesMayCall: a browser lets a page read every answer of the clients' API, also the errors that
// the router makes, and asks no worker whether it may. Other pages get the same answers and may not
// read them, whatever the worker says.
func TestPagesMayCall(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.On("/v1/chat/completions", func(rw http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http.MethodPost, r.Method, "the router answers preflights")
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		rw.Header().Set("Access-Control-Allow-Credentials", "true")
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"))
	})
	h := start(t, []*fakeWorker{w}, allowing(t, page), withKeys(keysOf(t, "alice")))
	for from, allowed := range map[string]string{page: page, "https://evil.example": "", "": ""} {
		for _, tt := range []struct {
			method, path, body, key string
			status                  int
		}{
			{http.MethodPost, "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, "secret-of-alice", 200},
			{http.MethodPost, "/v1/chat/completions", `{"messages":[`, "secret-of-alice", 400},
			{http.MethodPost, "/v1/chat/completions", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "secret-of-alice", 404},
			{http.MethodPost, "/v1/chat/completions", `{}`, "wrong", 401}, // refused before its body is read
			{http.MethodPost, "/nowhere", `{}`, "secret-of-alice", 404},
			{http.MethodPut, "/v1/chat/completions", `{}`, "secret-of-alice", 405},
			{http.MethodGet, "/v1/models", "", "secret-of-alice", 200},
			{http.MethodGet, "/health", "", "", 200},
		} {
			resp, got := h.Do(tt.method, h.Base+tt.path, tt.body, "Origin", from, "Authorization", "Bearer "+tt.key)
			assert.Equal(t, tt.status, resp.StatusCode, "%v from %q: %s", tt, from, got)
			assert.Equal(t, allowed, resp.Header.Get("Access-Control-Allow-Origin"), "%v from %q", tt, from)
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Credentials"))
			assert.Contains(t, resp.Header.Values("Vary"), "Origin")
		}
	}
	resp, _ := h.Do(http.MethodOptions, h.Base+"/v1/chat/completions", "", "Origin", page,
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	assert.Equal(t, http.StatusNoContent, resp.StatusCode)
	assert.Equal(t, page, resp.Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "authorization,content-type", resp.Header.Get("Access-Control-Allow-Headers"))
	resp, got := h.Do(http.MethodOptions, h.Base+"/v1/chat/completions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
	assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, got, "--cors-allowed-origins")
}

// TestPagesMayNotOperate: the operators' API is for no page, on whichever listener it is.
func TestPagesMayNotOperate(t *testing.T) {
	w := newFakeWorker(t, info(1))
	for _, apart := range []bool{false, true} {
		options := []option{allowing(t, page, "*")}
		if apart {
			options = append(options, withOperator(""))
		}
		h := start(t, []*fakeWorker{w}, options...)
		for _, path := range []string{"/status", "/metrics", "/workers", "/explain", "/flush_cache", "/console", "/", "/debug/pprof/"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
				resp, got := h.Do(method, h.Operator+path, `{}`, "Origin", page, "Access-Control-Request-Method", "POST")
				for name := range resp.Header {
					assert.NotContains(t, name, "Access-Control", "%s %s: %s", method, path, got)
				}
			}
		}
		at, err := url.Parse(h.Operator)
		require.NoError(t, err)
		resp, _ := h.Do(http.MethodGet, h.Operator+"/nowhere", "", "Origin", at.String())
		assert.Equal(t, !apart, resp.Header.Get("Access-Control-Allow-Origin") != "", "unknown paths are of the listener's API")
	}
}
