package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnswersHaveTheClientsNames: whatever id a worker gets, its answer names the request, each one of a list
// and each prompt of a batch as the client did, streamed or not and however the bytes arrive.
func TestAnswersHaveTheClientsNames(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	answer := func(rw http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		ids := enginesIDs(t, raw)
		for _, id := range ids {
			assert.NotContains(t, id, "mine")
		}
		whole := `{"text":"wp- and wp-00 are text","id":"` + strings.Join(ids, `","id":"`) + `","choices":[{"text":"a"}],"meta_info":{"id":"` + ids[0] + `"}}`
		if !strings.Contains(string(raw), `"stream":true`) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, whole)
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		text := "data: " + whole + "\n\ndata: [DONE]\n\n"
		for i := range text { // each byte alone
			_, _ = io.WriteString(rw, text[i:i+1])
			if i%7 == 0 {
				flush(rw)
			}
		}
	}
	w.On("/generate", answer)
	w.On("/v1/completions", answer)
	h := start(t, []*fakeWorker{w})
	for _, stream := range []bool{false, true} {
		for _, tt := range []struct{ path, body, want string }{
			{"/generate", `{"text":"x","rid":"mine"`, `"id":"mine"`},
			{"/generate", `{"text":"x","rid":"mi\"ne\u00e9"`, `"id":"mi\"neé"`},
			{"/generate", `{"text":["x","y","z"],"rid":["mine","mine2","m"]`, `"id":"mine","id":"mine2","id":"m"`},
			{"/generate", `{"text":["x","y"],"rid":"mine"`, `"id":"mine_0","id":"mine_1"`},
			{"/v1/completions", `{"model":"tiny","prompt":"x","rid":"mine"`, `"id":"mine"`},
		} {
			resp, got := h.Post(tt.path, tt.body+fmt.Sprintf(`,"stream":%t}`, stream))
			require.Equal(t, http.StatusOK, resp.StatusCode, got)
			assert.Contains(t, got, `"text":"wp- and wp-00 are text",`+tt.want+`,"choices"`, tt.body)
			if stream {
				assert.True(t, strings.HasSuffix(got, "}}\n\ndata: [DONE]\n\n"), got)
			}
		}
	}
	_, got := h.Post("/generate", `{"text":"x"}`)
	assert.Contains(t, got, `"id":"wp-`, "without a name the router's own stays")
}

// TestAStreamWithoutItsEndEndsInAnError: a worker may end a stream cleanly and too early; its client must not
// take a part for the whole.
func TestAStreamWithoutItsEndEndsInAnError(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		if name == "responses" { // its last event has no mark
			continue
		}
		for cut, text := range map[string]string{"between events": d.begin, "in an event": d.begin + "data: {\"half"} {
			w := newFakeWorker(t, info(1))
			w.Streams(d.path, text)
			h := start(t, []*fakeWorker{w})
			resp, got := h.Post(d.path, d.request("hi", true))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			assert.True(t, strings.HasPrefix(got, d.begin), "%s, %s: %q", name, cut, got)
			assert.Contains(t, got, "The worker failed before the end of its answer.", "%s, %s", name, cut)
			assert.True(t, strings.HasSuffix(got, "\n\n"), "%s, %s: %q", name, cut, got)
			w = newFakeWorker(t, info(1))
			w.Streams(d.path, d.begin+d.rest)
			h = start(t, []*fakeWorker{w})
			_, got = h.Post(d.path, d.request("hi", true))
			assert.Equal(t, d.begin+d.rest, got, name)
		}
	}
}
