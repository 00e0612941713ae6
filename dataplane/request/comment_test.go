package request_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Comments by which a server on the way keeps connections alive reach the client while the worker
// computes, also behind the events that promise nothing.
func TestCommentsPassAtOnce(t *testing.T) { overBoth(t, testCommentsPassAtOnce) }

func testCommentsPassAtOnce(t *testing.T) {
	t.Helper()
	const created = `data: {"type":"response.created","response":{"id":"resp_1"}}` + "\n\n"
	const started = `event: message_start` + "\n" + `data: {"type":"message_start","message":{}}` + "\n\n"
	const done = "data: {\"choices\":[{\"text\":\"a\",\"delta\":{}}],\"meta_info\":{\"id\":\"a\"}}\n\ndata: [DONE]\n\n"
	const completed = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"
	for _, tt := range []struct{ path, before, comment, rest string }{
		{"/generate", "", ": ping\n\n", done},
		{"/generate", "", ":\r\n\r\n", done},
		{"/v1/completions", "", ": ping\n\n: ping\n\n", done},
		{"/v1/chat/completions", "", ": PROCESSING\n\n", done},
		{"/v1/responses", created, ": ping\n\n", completed},
		{"/v1/messages", started, ": ping\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
	} {
		w := newFakeWorker(t, info(1))
		seen := make(chan struct{})
		w.on(tt.path, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, tt.before+tt.comment)
			_ = http.NewResponseController(rw).Flush()
			<-seen
			_, _ = io.WriteString(rw, tt.rest)
		})
		h := start(t, []*fakeWorker{w})
		body := strings.TrimSuffix(rankedBodies[tt.path], "}") + `,"stream":true}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.base+tt.path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := h.client.Do(req)
		require.NoError(t, err)
		in, first := bufio.NewReader(resp.Body), make([]byte, len(tt.before+tt.comment))
		_, err = io.ReadFull(in, first)
		require.NoError(t, err)
		assert.Equal(t, tt.before+tt.comment, string(first))
		close(seen)
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Equal(t, tt.rest, string(rest))
		_ = resp.Body.Close()
	}
}

// Behind a comment that came with it, an error is the beginning of the answer: another worker's is
// the client's.
func TestErrorBehindACommentGoesElsewhere(t *testing.T) {
	failsOver(t, "/generate", `{"input_ids":[1]`, "data: {\"meta_info\":{\"id\":\"a\"}}\n\ndata: [DONE]\n\n", func(bad *fakeWorker) {
		bad.streams("/generate", ": ping\n\ndata: {\"error\":{\"message\":\"x\",\"code\":500}}\n\ndata: [DONE]\n\n")
	})
}

// Behind a comment that the client already has, an event that no client can read does not reach it:
// an error comes in its place, and counts against the worker.
func TestNoAnswerBehindAComment(t *testing.T) { overBoth(t, testNoAnswerBehindAComment) }

func testNoAnswerBehindAComment(t *testing.T) {
	t.Helper()
	for name, rest := range map[string]string{
		"an empty object": "data: {}\n\ndata: [DONE]\n\n",
		"text":            "data: ready\n\n",
		"the request":     "data: {\"prompt\":\"hi\",\"stream\":true}\n\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			w, read := newFakeWorker(t, info(1)), make(chan struct{})
			w.on("/v1/completions", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, ": ping\n\n")
				flush(rw)
				<-read
				_, _ = io.WriteString(rw, rest)
			})
			h := start(t, []*fakeWorker{w})
			got := h.readsOn(t, "/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, ": ping\n\n", read)
			events, err := strictEvents(got)
			require.NoError(t, err, got)
			require.Len(t, events, 2, got)
			assert.Contains(t, events[0], `"error"`)
			assert.Equal(t, "[DONE]", events[1])
			require.Eventually(t, func() bool { return h.worker(w).Breaker.Faults() > 0 }, patience, tick)
		})
	}
}
