package request_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// noAnswer is an answer of status 200, if it names no other, that answers nothing.
type noAnswer struct {
	status     int
	mime, body string
}

func (a noAnswer) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", a.mime)
	if a.status > 0 {
		rw.WriteHeader(a.status)
	}
	_, _ = io.WriteString(rw, a.body)
}

// TestAnswersThatAnswerNothing: one of four workers answers with status 200 what no engine says. The
// others answer its requests, and its breaker opens.
func TestAnswersThatAnswerNothing(t *testing.T) {
	const chat = `{"id":"1","object":"chat.completion","model":"tiny","choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	type api struct{ path, body, mime, good string }
	apis := map[string]api{
		"generate":    {"/generate", idsBody, "application/json", idsReply},
		"chat":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`, "application/json", chat},
		"completions": {"/v1/completions", `{"model":"tiny","prompt":"hi"}`, "application/json", chat},
		"messages":    {"/v1/messages", messagesBody + "}", "application/json", messageReply},
		"responses":   {"/v1/responses", responsesBody + "}", "application/json", responseReply},
		"stream":      {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, "text/event-stream", "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n"},
	}
	kinds := map[string]noAnswer{
		"an empty object": {0, "application/json", `{}`},
		"an empty list":   {0, "application/json", `[]`},
		"null":            {0, "application/json", `null`},
		"text":            {0, "text/plain", `ready`},
		"a page":          {0, "text/html", `<html></html>`},
		"a detail":        {0, "application/json", `{"detail":"no such route"}`},
		"accepted":        {http.StatusAccepted, "application/json", `{"text":"a","choices":[],"content":[],"output":[]}`},
		"the other kind":  {},
	}
	for name, a := range apis {
		for kind, bad := range kinds {
			if kind != "an empty object" && kind != "the other kind" && name != "chat" && name != "generate" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				if kind == "the other kind" {
					bad = noAnswer{0, "text/event-stream", "data: {\"text\":\"a\",\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n"}
					if a.mime == bad.mime {
						bad = noAnswer{0, "application/json", chat}
					}
				}
				var workers []*fakeWorker
				for range 4 {
					w := newFakeWorker(t, info(1))
					w.on(a.path, noAnswer{0, a.mime, a.good}.ServeHTTP)
					workers = append(workers, w)
				}
				workers[0].on(a.path, bad.ServeHTTP)
				h := start(t, workers, withPolicy("round-robin"))
				for range 24 {
					resp, got := h.post(a.path, a.body)
					assert.Equal(t, http.StatusOK, resp.StatusCode, got)
					assert.Equal(t, a.good, got)
				}
				h.assertBroken(workers)
			})
		}
	}
}

// assertBroken checks that only the breaker of the first worker has opened.
func (h *harness) assertBroken(workers []*fakeWorker) {
	h.t.Helper()
	for i, w := range workers {
		assert.Equal(h.t, i == 0, h.worker(w).Breaker.Opened() > 0, "worker %d has %d faults", i, h.worker(w).Breaker.Faults())
	}
}

// TestStreamsWithoutTheirEnd: the client has a part, and the worker's breaker opens.
func TestStreamsWithoutTheirEnd(t *testing.T) {
	t.Parallel()
	w, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	w.streams("/v1/completions", "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
	good.streams("/v1/completions", "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
	h := start(t, []*fakeWorker{w, good}, withPolicy("round-robin"))
	for range 12 {
		_, _ = h.post("/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`)
	}
	h.awaitIdle()
	h.assertBroken([]*fakeWorker{w, good})
	assert.Equal(t, worker.Ready, h.worker(good).State())
}
