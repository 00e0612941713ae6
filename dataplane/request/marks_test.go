package request_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// TestMarksAreForTheirAudience: whoever must not see the X-Warmpath-* fields gets none, of whatever kind the answer is and
// though the worker sends some itself. The operators' key goes to no worker.
func TestMarksAreForTheirAudience(t *testing.T) {
	const key = "operators-own-key"
	w := newFakeWorker(t, info(1))
	got := make(chan string, 16)
	answers := func(path string, status int, kind, body string) {
		w.On(path, func(rw http.ResponseWriter, r *http.Request) {
			got <- r.Header.Get("Authorization")
			rw.Header().Set("X-Warmpath-Worker", "http://behind:1")
			rw.Header()["x-warmpath-overlap"] = []string{"3/4"}
			rw.Header().Set("X-Warmpath-Else", "x")
			rw.Header().Set("Content-Type", kind)
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		})
	}
	answers("/generate", http.StatusOK, "application/json", idsReply)
	answers("/v1/completions", http.StatusOK, "text/event-stream", "data: {\"choices\":[{\"text\":\"\",\"delta\":{}}]}\n\ndata: [DONE]\n\n")
	answers("/v1/chat/completions", http.StatusBadRequest, "application/json", `{"error":{"message":"no"}}`)
	answers("/v1/embeddings", http.StatusServiceUnavailable, "application/json", `{}`)
	answers("/v1/models/tiny", http.StatusOK, "application/json", "")
	h := start(t, []*fakeWorker{w})
	for _, tt := range []struct {
		audience string
		key      string // of the router
		header   string
		shown    bool
	}{
		{"", "", "", true},
		{request.AudienceAll, key, "", true},
		{request.AudienceAll, key, "Bearer of-a-client", true},
		{request.AudienceAll, key, "Bearer " + key, true},
		{request.AudienceOperators, key, "", false},
		{request.AudienceOperators, key, "Bearer of-a-client", false},
		{request.AudienceOperators, key, "Bearer " + key + "x", false},
		{request.AudienceOperators, key, "Bearer", false},
		{request.AudienceOperators, key, "Basic " + key + "x", false},
		{request.AudienceOperators, key, "Bearer " + key, true},
		{request.AudienceOperators, key, "bearer " + key, true},
		{request.AudienceOperators, "", "", false},
		{request.AudienceOperators, "", "Bearer ", false},
		{request.AudienceNone, key, "Bearer " + key, false},
	} {
		h.Requests.Configure(func(c *request.Config) { c.Audience, c.OperatorKey = tt.audience, []byte(tt.key) })
		for path, body := range map[string]string{
			"/generate": idsBody, "/v1/completions": `{"model":"tiny","prompt":"x","stream":true}`,
			"/v1/chat/completions": `{"model":"tiny","messages":[{"role":"user","content":"x"}]}`,
			"/v1/embeddings":       `{"model":"tiny","input":"x"}`, "/v1/models/tiny": "",
		} {
			method := http.MethodPost
			if body == "" {
				method = http.MethodGet
			}
			var header []string
			if tt.header != "" {
				header = []string{"Authorization", tt.header}
			}
			resp, _ := h.Do(method, h.Base+path, body, header...)
			marks := 0
			for name := range resp.Header {
				if strings.HasPrefix(strings.ToLower(name), "x-warmpath-") {
					marks++
				}
			}
			assert.Equal(t, tt.shown, marks > 0, "%+v %s: %v", tt, path, resp.Header)
			if tt.shown {
				assert.Equal(t, w.URL, resp.Header.Get("X-Warmpath-Worker"), path)
			}
			for len(got) > 0 {
				sent := <-got
				assert.NotContains(t, sent+"$", key+"$", "the operators' key at a worker")
				if tt.header == "Bearer of-a-client" {
					assert.Equal(t, tt.header, sent)
				}
			}
		}
	}
}

// TestMarksOfPairs: the legs of a pair are as secret, and neither gets the operators' key.
func TestMarksOfPairs(t *testing.T) {
	const key = "operators-own-key"
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d, func(s *settings) { s.Request.Audience, s.Request.OperatorKey = request.AudienceOperators, []byte(key) })
	for header, shown := range map[string]bool{"": false, "Bearer " + key: true} {
		resp, got := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "Authorization", header)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		for _, name := range []string{"X-Warmpath-Worker", "X-Warmpath-Prefill", "X-Warmpath-Overlap", "X-Warmpath-Overlap-Source"} {
			assert.Equal(t, shown, resp.Header.Get(name) != "", name)
		}
	}
}
