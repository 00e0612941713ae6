package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
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

// Answers of 200 that have the members of all APIs, and nothing in them.
const (
	noData    = `{"text":"a","choices":[],"content":[],"output":[],"data":[],"results":[],"scores":[],"embedding":[],"tokens":[]}`
	emptyData = `{"text":"a","choices":[{}],"content":[{}],"output":[{}],"data":[{}],"results":[{}],"meta_info":{}}`
)

// TestAnswersThatAnswerNothing: one of two workers answers with status 200 what no engine says. The other one answers its requests, and
// its breaker opens. Package disagg has further bodies of each API.
func TestAnswersThatAnswerNothing(t *testing.T) {
	const js, sse, done = "application/json", "text/event-stream", "data: [DONE]\n\n"
	const chat = `{"id":"1","object":"chat.completion","model":"tiny","choices":[{"text":"a","message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	kinds := map[string]map[string]noAnswer{
		js: {
			"an empty object": {0, js, `{}`},
			"no data":         {0, js, noData},
			"empty data":      {0, js, emptyData},
			"an empty list":   {0, js, `[]`},
			"null":            {0, js, `null`},
			"text":            {0, "text/plain", `ready`},
			"a page":          {0, "text/html", `<html></html>`},
			"a detail":        {0, js, `{"detail":"no such route"}`},
			"null members":    {0, js, `{"text":null,"choices":null,"content":null,"output":null,"meta_info":null}`},
			"half":            {0, js, ""},
			"accepted":        {http.StatusAccepted, js, chat},
			"a stream":        {0, sse, "data: {\"text\":\"a\",\"choices\":[{\"text\":\"a\"}]}\n\n" + done},
		},
		sse: {
			"an empty object":     {0, sse, "data: {}\n\n" + done},
			"no data":             {0, sse, strings.Repeat("data: "+noData+"\n\n", 3) + done},
			"empty data":          {0, sse, "data: " + emptyData + "\n\n" + done},
			"null":                {0, sse, "data: null\n\n" + done},
			"text":                {0, sse, "data: ready\n\n"},
			"its request":         {0, sse, `data: {"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"rid":"wp-0"}` + "\n\n" + done},
			"half an object":      {0, sse, "data: {\"id\":"},
			"nothing but the end": {0, sse, done},
			"a document":          {0, js, chat},
		},
	}
	for name, a := range map[string]struct{ path, body, mime, good string }{
		"generate":    {"/generate", idsBody, js, idsReply},
		"chat":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`, js, chat},
		"completions": {"/v1/completions", `{"model":"tiny","prompt":"hi"}`, js, chat},
		"messages":    {"/v1/messages", messagesBody + "}", js, messageReply},
		"responses":   {"/v1/responses", responsesBody + "}", js, responseReply},

		"generate, streamed":    {"/generate", `{"input_ids":[1,2,3],"stream":true}`, sse, "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"x\",\"finish_reason\":null}}\n\n" + done},
		"chat, streamed":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}`, sse, "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + done},
		"completions, streamed": {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, sse, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n" + done},
		"messages, streamed":    {"/v1/messages", messagesBody + `,"stream":true}`, sse, messageStart + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		"responses, streamed":   {"/v1/responses", responsesBody + `,"stream":true}`, sse, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"x\"}}\n\n"},

		"embeddings":   {"/v1/embeddings", `{"model":"tiny","input":"x"}`, js, `{"data":[{"embedding":[0.5],"index":0,"object":"embedding"}],"model":"tiny","object":"list"}`},
		"rerank":       {"/v1/rerank", `{"model":"tiny","query":"a","documents":["b"]}`, js, `[{"score":0.5,"document":"b","index":0}]`},
		"score":        {"/v1/score", `{"model":"tiny","query":"a","items":["b"]}`, js, `{"scores":[[0.5]],"model":"tiny","object":"scoring"}`},
		"v1/classify":  {"/v1/classify", `{"model":"tiny","input":"x"}`, js, `{"id":"1","object":"list","data":[{"index":0,"label":"a","probs":[1],"num_classes":1}]}`},
		"classify":     {"/classify", `{"text":"x"}`, js, `{"embedding":[0.5],"meta_info":{"id":"1"}}`},
		"tokenize":     {"/tokenize", `{"model":"tiny","prompt":"x"}`, js, `{"tokens":[1],"count":1,"max_model_len":8}`},
		"detokenize":   {"/detokenize", `{"model":"tiny","tokens":[1]}`, js, `{"text":"x"}`},
		"count_tokens": {"/v1/messages/count_tokens", messagesBody + "}", js, `{"input_tokens":3}`},
	} {
		for kind, bad := range kinds[a.mime] {
			switch {
			case kind == "an empty object", strings.HasPrefix(name, "chat"):
			case name != "embeddings" || kind != "accepted" && kind != "a stream" && kind != "half":
				continue
			}
			if kind == "half" {
				bad.body = a.good[:len(a.good)-2]
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				workers := []*fakeWorker{newFakeWorker(t, info(1)), newFakeWorker(t, info(1))}
				workers[0].On(a.path, bad.ServeHTTP)
				workers[1].On(a.path, noAnswer{0, a.mime, a.good}.ServeHTTP)
				h := start(t, workers, withPolicy("round-robin"))
				for range 12 {
					resp, got := h.Post(a.path, a.body)
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
		assert.Equal(h.t, i == 0, h.Worker(w).Breaker.Opened() > 0, "worker %d has %d faults", i, h.Worker(w).Breaker.Faults())
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
			w.On(a.path, noAnswer{0, a.mime, a.part}.ServeHTTP)
			good.On(a.path, noAnswer{0, a.mime, a.part + a.end}.ServeHTTP)
			h := start(t, []*fakeWorker{w, good}, withPolicy("round-robin"))
			for range 12 {
				_, got := h.Post(a.path, a.body)
				assert.True(t, strings.HasSuffix(got, a.end) || a.mime == "application/json" || strings.Contains(got, `"error"`), got)
			}
			h.AwaitIdle()
			h.assertBroken([]*fakeWorker{w, good})
			assert.Equal(t, worker.Ready, h.Worker(good).State())
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
					w.On("/v1/completions", tt.ServeHTTP)
					w.On("/abort_request", noAborts)
					workers = append(workers, w)
				}
				h := start(t, workers)
				for stream, want := range map[bool]int{false: tt.document, true: tt.stream} {
					resp, got := h.Do(http.MethodPost, h.Base+"/v1/completions", fmt.Sprintf(`{"model":"tiny","prompt":"hi","stream":%t}`, stream))
					assert.Equal(t, want, resp.StatusCode, "stream %t: %s", stream, got)
					assert.NotEmpty(t, got)
					assert.Contains(t, got, tt.says)
				}
				h.AwaitIdle()
			})
		}
	}
}
