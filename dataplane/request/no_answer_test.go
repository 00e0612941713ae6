package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// Answers of 200 that have the members of all APIs, and nothing in them.
const (
	noData    = `{"text":"a","choices":[],"content":[],"output":[],"data":[],"results":[],"scores":[],"embedding":[],"tokens":[]}`
	emptyData = `{"text":"a","choices":[{}],"content":[{}],"output":[{}],"data":[{}],"results":[{}],"meta_info":{}}`
)

// TestAnswersThatAnswerNothing: one of four workers answers with status 200 what no engine says. The
// others answer its requests, and its breaker opens.
func TestAnswersThatAnswerNothing(t *testing.T) {
	const chat = `{"id":"1","object":"chat.completion","model":"tiny","choices":[{"text":"a","message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
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
		"no data":         {0, "application/json", noData},
		"empty data":      {0, "application/json", emptyData},
		"an empty object": {0, "application/json", `{}`},
		"an empty list":   {0, "application/json", `[]`},
		"null":            {0, "application/json", `null`},
		"text":            {0, "text/plain", `ready`},
		"a page":          {0, "text/html", `<html></html>`},
		"a detail":        {0, "application/json", `{"detail":"no such route"}`},
		"a state":         {0, "application/json", `{"status":"ok"}`},
		"null members":    {0, "application/json", `{"text":null,"choices":null,"content":null,"output":null,"meta_info":null}`},
		"half":            {0, "application/json", `{"text":"a","choices":[{"message":{"content":"a"}}],"content":[],"output":[]`},
		"accepted":        {http.StatusAccepted, "application/json", `{"text":"a","choices":[],"content":[],"output":[]}`},
		"the other kind":  {},
	}
	for name, a := range apis {
		for kind, bad := range kinds {
			if kind != "an empty object" && kind != "the other kind" && kind != "a state" && kind != "half" && !strings.HasSuffix(kind, "data") && name != "chat" && name != "generate" {
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
				h.assertPassedOver(workers, 24, a.path, a.body, a.good)
			})
		}
	}
}

// TestStreamsThatAnswerNothing is the same for the first event of streams.
func TestStreamsThatAnswerNothing(t *testing.T) {
	const done = "data: [DONE]\n\n"
	apis := map[string]struct{ path, body, good string }{
		"generate":    {"/generate", `{"input_ids":[1,2,3],"stream":true}`, "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"x\",\"finish_reason\":null}}\n\n" + done},
		"chat":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}`, "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + done},
		"completions": {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n" + done},
		"messages":    {"/v1/messages", messagesBody + `,"stream":true}`, messageStart + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		"responses":   {"/v1/responses", responsesBody + `,"stream":true}`, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"x\"}}\n\n"},
	}
	kinds := map[string]func(body []byte) string{
		"an empty object":     func([]byte) string { return "data: {}\n\n" + done },
		"null":                func([]byte) string { return "data: null\n\n" + done },
		"an empty list":       func([]byte) string { return "data: []\n\n" },
		"text":                func([]byte) string { return "data: ready\n\n" },
		"another object":      func([]byte) string { return "data: {\"status\":\"ok\"}\n\n" + done },
		"its request":         func(body []byte) string { return "data: " + string(body) + "\n\n" + done },
		"no data":             func([]byte) string { return strings.Repeat("data: "+noData+"\n\n", 3) + done },
		"empty data":          func([]byte) string { return "data: " + emptyData + "\n\n" + done },
		"half an object":      func([]byte) string { return "data: {\"id\":" },
		"nothing but the end": func([]byte) string { return done },
	}
	for name, a := range apis {
		for kind, bad := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				workers := []*fakeWorker{newFakeWorker(t, info(1)), newFakeWorker(t, info(1))}
				workers[0].on(a.path, func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					noAnswer{0, "text/event-stream", bad(body)}.ServeHTTP(rw, r)
				})
				workers[1].streams(a.path, a.good)
				h := start(t, workers, withPolicy("round-robin"))
				h.assertPassedOver(workers, 12, a.path, a.body, a.good)
			})
		}
	}
}

// TestOtherAnswersThatAnswerNothing is the same for APIs that compute no tokens.
func TestOtherAnswersThatAnswerNothing(t *testing.T) {
	for path, a := range map[string][2]string{
		"/v1/embeddings":            {`{"model":"tiny","input":"x"}`, `{"data":[{"embedding":[0.5],"index":0,"object":"embedding"}],"model":"tiny","object":"list"}`},
		"/v1/rerank":                {`{"model":"tiny","query":"a","documents":["b"]}`, `[{"score":0.5,"document":"b","index":0}]`},
		"/v1/score":                 {`{"model":"tiny","query":"a","items":["b"]}`, `{"scores":[[0.5]],"model":"tiny","object":"scoring"}`},
		"/v1/classify":              {`{"model":"tiny","input":"x"}`, `{"id":"1","object":"list","data":[{"index":0,"label":"a","probs":[1],"num_classes":1}]}`},
		"/classify":                 {`{"text":"x"}`, `{"embedding":[0.5],"meta_info":{"id":"1"}}`},
		"/tokenize":                 {`{"model":"tiny","prompt":"x"}`, `{"tokens":[1],"count":1,"max_model_len":8}`},
		"/detokenize":               {`{"model":"tiny","tokens":[1]}`, `{"text":"x"}`},
		"/v1/messages/count_tokens": {messagesBody + "}", `{"input_tokens":3}`},
	} {
		for kind, bad := range map[string]noAnswer{
			"an empty object": {0, "application/json", `{}`},
			"no data":         {0, "application/json", `{"data":[],"results":[],"scores":[],"embedding":[],"tokens":[],"usage":null}`},
			"empty data":      {0, "application/json", `{"data":[{}],"results":[{}],"meta_info":{}}`},
			"null":            {0, "application/json", `null`},
			"text":            {0, "text/plain", `ready`},
			"a detail":        {0, "application/json", `{"detail":"no such route"}`},
			"its request":     {0, "application/json", a[0]},
			"half":            {0, "application/json", a[1][:len(a[1])-2]},
			"accepted":        {http.StatusAccepted, "application/json", a[1]},
			"a stream":        {0, "text/event-stream", "data: " + a[1] + "\n\n"},
		} {
			t.Run(path+", "+kind, func(t *testing.T) {
				t.Parallel()
				workers := []*fakeWorker{newFakeWorker(t, info(1)), newFakeWorker(t, info(1))}
				workers[0].on(path, bad.ServeHTTP)
				workers[1].on(path, noAnswer{0, "application/json", a[1]}.ServeHTTP)
				h := start(t, workers, withPolicy("round-robin"))
				h.assertPassedOver(workers, 12, path, a[0], a[1])
			})
		}
	}
}

// assertPassedOver sends n requests, and checks that each gets the good answer and that only the
// breaker of the first worker opens.
func (h *harness) assertPassedOver(workers []*fakeWorker, n int, path, body, good string) {
	h.t.Helper()
	for range n {
		resp, got := h.post(path, body)
		assert.Equal(h.t, http.StatusOK, resp.StatusCode, got)
		assert.Equal(h.t, good, got)
	}
	h.assertBroken(workers)
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
	begun := "data: {\"text\":\"a\",\"choices\":[{\"text\":\"a\"}]}\n\n"
	long := `{"choices":[{"text":"` + strings.Repeat("a", 4<<10)
	for name, a := range map[string]struct{ path, body, mime, part, end string }{
		"completions":          {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, "text/event-stream", begun, "data: [DONE]\n\n"},
		"a text with the end":  {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, "text/event-stream", begun + "data: {\"choices\":[{\"text\":\"[DONE]\"}]}\n\n", "data: [DONE]\n\n"},
		"responses":            {"/v1/responses", responsesBody + `,"stream":true}`, "text/event-stream", "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}\n\n", "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"},
		"messages":             {"/v1/messages", messagesBody + `,"stream":true}`, "text/event-stream", messageStart + "event: ping\ndata: {\"type\":\"ping\"}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		"vectors in chunks":    {"/v1/embeddings", `{"model":"tiny","input":"x"}`, "application/json", `{"data":[{"embedding":[0.5` + strings.Repeat(",0.5", 4<<10), `]}]}`},
		"a document in chunks": {"/v1/completions", `{"model":"tiny","prompt":"hi"}`, "application/json", long, `"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			w.on(a.path, noAnswer{0, a.mime, a.part}.ServeHTTP)
			good.on(a.path, noAnswer{0, a.mime, a.part + a.end}.ServeHTTP)
			h := start(t, []*fakeWorker{w, good}, withPolicy("round-robin"))
			for range 12 {
				_, got := h.post(a.path, a.body)
				assert.True(t, strings.HasSuffix(got, a.end) || a.mime == "application/json" || strings.Contains(got, `"error"`), got)
			}
			h.awaitIdle()
			h.assertBroken([]*fakeWorker{w, good})
			assert.Equal(t, worker.Ready, h.worker(good).State())
		})
	}
}

// TestNoWorkerAnswers: where all workers answer with a good status and no answer, the client gets an
// error that its library sees: their own, with the status that it hides, or the router's where they
// say nothing. Other answers are the worker's own words.
func TestNoWorkerAnswers(t *testing.T) {
	const boom = `{"error":{"message":"boom","type":"BadRequestError","code":400}}`
	for name, tt := range map[string]struct {
		noAnswer
		document, stream int // status that the client gets for a request of each kind
		says             string
	}{
		"an error":            {noAnswer{0, "application/json", boom}, 400, 400, "boom"},
		"an error of 500":     {noAnswer{0, "application/json", `{"object":"error","message":"boom","code":500}`}, 500, 500, "boom"},
		"an error event":      {noAnswer{0, "text/event-stream", "data: " + boom + "\n\n"}, 200, 200, "boom"},
		"an empty body":       {noAnswer{0, "application/json", ""}, 502, 502, ""},
		"no event":            {noAnswer{0, "text/event-stream", ""}, 502, 502, ""},
		"an event of nothing": {noAnswer{0, "text/event-stream", "data: {}\n\ndata: [DONE]\n\n"}, 200, 200, "{}"},
		"an empty object":     {noAnswer{0, "application/json", "{}"}, 200, 200, "{}"},
		"a page":              {noAnswer{0, "text/html", "<html>"}, 200, 200, "<html>"},
		"accepted":            {noAnswer{http.StatusAccepted, "application/json", "{}"}, 202, 202, "{}"},
		"elsewhere":           {noAnswer{http.StatusFound, "application/json", ""}, 502, 502, ""},
		"no content":          {noAnswer{http.StatusNoContent, "application/json", ""}, 502, 502, ""},
	} {
		for _, n := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, of %d", name, n), func(t *testing.T) {
				t.Parallel()
				var workers []*fakeWorker
				for range n {
					w := newFakeWorker(t, info(1))
					w.on("/v1/completions", tt.ServeHTTP)
					w.on("/abort_request", noAborts)
					workers = append(workers, w)
				}
				h := start(t, workers)
				for stream, want := range map[bool]int{false: tt.document, true: tt.stream} {
					resp, got, err := h.do(http.MethodPost, h.base+"/v1/completions", fmt.Sprintf(`{"model":"tiny","prompt":"hi","stream":%t}`, stream))
					require.NoError(t, err)
					assert.Equal(t, want, resp.StatusCode, "stream %t: %s", stream, got)
					assert.NotEmpty(t, got)
					assert.Contains(t, got, tt.says)
				}
				h.awaitIdle()
			})
		}
	}
}
