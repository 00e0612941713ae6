package request_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// strictEvents reads a stream by the specification of events, with JSON or [DONE] as the data
// of each event: the reading of OpenAI's client and LangChain. Half an event at the end is an
// error here, though clients may drop it.
func strictEvents(raw string) (events []string, err error) {
	text := strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\r", "\n")
	var data []string
	for text != "" {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			return events, fmt.Errorf("half a line %q", line)
		}
		text = rest
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if line != "" || len(data) == 0 {
			continue
		}
		one := strings.Join(data, "\n")
		if data = nil; one != "[DONE]" && !json.Valid([]byte(one)) {
			return events, fmt.Errorf("no JSON: %q", one)
		}
		events = append(events, one)
	}
	if data != nil {
		return events, fmt.Errorf("half an event %q", data)
	}
	return events, nil
}

// streams that a worker may break off, in pieces as they are sent.
var brokenOff = map[string]string{
	"LF":        "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\ndata: {\"text\":\"ab\\n\\n\"}\n\n",
	"CRLF":      "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\r\n\r\ndata: {\"text\":\"ab\"}\r\n\r\n",
	"two lines": "event: x\ndata: {\"text\":\ndata: \"a\"}\n\n: ping\n\nevent: y\ndata: {\"text\":\ndata: \"ab\"}\n\n",
}

// A worker dies after any byte of its second event: the client gets the first event and then
// the router's error.
func TestWorkerDiesInsideAnEvent(t *testing.T) { overBoth(t, testWorkerDiesInsideAnEvent) }

func testWorkerDiesInsideAnEvent(t *testing.T) {
	t.Helper()
	for name, stream := range brokenOff {
		first := strings.LastIndex(strings.TrimRight(stream, "\r\n"), "data: {")
		if name == "two lines" {
			first = strings.Index(stream, ": ping")
		}
		for path, url := range map[string]string{"plain": "/generate", "fasthttp": "/generate?a=b"} {
			t.Run(name+"/"+path, func(t *testing.T) {
				w := newFakeWorker(t, info(1))
				w.On("/abort_request", noAborts)
				var cutAt atomic.Int64
				read := make(chan struct{})
				w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(rw, stream[:first])
					flush(rw)
					<-read // so that the rest is a piece of its own
					cut := int(cutAt.Load())
					half := first + (cut-first)/2
					_, _ = io.WriteString(rw, stream[first:half])
					flush(rw)
					_, _ = io.WriteString(rw, stream[half:cut])
					flush(rw)
					panic(http.ErrAbortHandler)
				})
				h := start(t, []*fakeWorker{w})
				for cut := first; cut <= len(stream); cut++ {
					if !allDialects && cut < len(stream)-4 && cut%2 != len(path)%2 { // each byte by one path
						continue
					}
					cutAt.Store(int64(cut))
					got := h.readsOn(t, url, `{"text":"x","stream":true}`, stream[:first], read)
					events, err := strictEvents(got)
					require.NoError(t, err, "cut at %d: %q", cut, got)
					require.GreaterOrEqual(t, len(events), 3, "%q", got)
					require.Contains(t, events[len(events)-2], `"error"`)
					require.Equal(t, "[DONE]", events[len(events)-1])
					whole, _ := strictEvents(stream)
					require.Equal(t, whole[:len(events)-2], events[:len(events)-2], "cut at %d: %q", cut, got)
				}
			})
		}
	}
}

// noAborts accepts any number of aborts.
func noAborts(http.ResponseWriter, *http.Request) {}

// readsOn sends a request, closes read once the client has the beginning of the answer, and
// returns the whole answer.
func (h *harness) readsOn(t *testing.T, url, body, begin string, read chan<- struct{}) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.Base+url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "gzip") // streams are not compressed
	resp, err := h.Client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Empty(t, resp.Header.Get("Content-Encoding"))
	in := bufio.NewReader(resp.Body)
	got := make([]byte, len(begin))
	_, err = io.ReadFull(in, got)
	require.NoError(t, err)
	read <- struct{}{}
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(got) + string(rest)
}

// The same for a decode worker. Its answer may be merged with the prefill worker's.
func TestDecodeWorkerDiesInsideAnEvent(t *testing.T) {
	t.Parallel()
	begin := "data: " + decodeReply + "\n\n"
	stream := begin + strings.Replace(begin, `"d"`, `"dd"`, 1)
	for name, more := range map[string]string{"plain": "", "merged": `,"return_logprob":true,"logprob_start_len":0`} {
		t.Run(name, func(t *testing.T) {
			p, d := newPair(t, 1, 1, 1)
			p[0].On("/abort_request", noAborts)
			d[0].On("/abort_request", noAborts)
			var cutAt atomic.Int64
			read := make(chan struct{})
			p[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
				if l.waits(r, l.arrives(b)) {
					rw.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(rw, "data: {\"text\":\"p\",\"meta_info\":{\"id\":\"x\",\"input_token_logprobs\":[[-1,1,null]]}}\n\ndata: [DONE]\n\n")
				}
			})
			d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
				if !l.waits(r, l.arrives(b)) {
					return
				}
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, begin)
				flush(rw)
				<-read
				_, _ = io.WriteString(rw, stream[len(begin):cutAt.Load()])
				flush(rw)
				panic(http.ErrAbortHandler)
			})
			h := startPair(t, p, d)
			for cut := len(begin); cut <= len(stream); cut += 5 {
				cutAt.Store(int64(cut))
				got := h.readsOn(t, "/generate", `{"input_ids":[1,2,3],"stream":true`+more+`}`, begin[:8], read)
				events, err := strictEvents(got)
				require.NoError(t, err, "cut at %d: %q", cut, got)
				require.Contains(t, events[len(events)-2], `"error"`)
				require.LessOrEqual(t, len(events), 4)
				if more != "" && bytes.Contains([]byte(got), []byte("input_token_logprobs")) {
					require.Contains(t, events[0], "[-1,1,null]")
				}
			}
		})
	}
}

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
		w.On(tt.path, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, tt.before+tt.comment)
			_ = http.NewResponseController(rw).Flush()
			<-seen
			_, _ = io.WriteString(rw, tt.rest)
		})
		h := start(t, []*fakeWorker{w})
		body := strings.TrimSuffix(rankedBodies[tt.path], "}") + `,"stream":true}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.Base+tt.path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := h.Client.Do(req)
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
			w.On("/v1/completions", func(rw http.ResponseWriter, _ *http.Request) {
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
			require.Eventually(t, func() bool { return h.Worker(w).Breaker.Faults() > 0 }, patience, tick)
		})
	}
}
