package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// fastFault is a failure that comes faster than other workers compute.
type fastFault struct {
	name   string
	status int
	mime   string
	body   string
	raw    string // all that is sent
	cut    bool   // the connection is reset behind the body
	late   bool   // the failure is behind some text: nothing can be sent again
}

// Error forms of SGLang 0.5.23 (srt/entrypoints), and of proxies in front of it.
const (
	goodEvent      = `data: {"text":"x","meta_info":{"id":"a","finish_reason":null,"prompt_tokens":9,"cached_tokens":0}}` + "\n\n"
	doneEvent      = "data: [DONE]\n\n"
	openAIEvent    = `data: {"error": {"object": "error", "message": "out of memory", "type": "INTERNAL_SERVER_ERROR", "param": null, "code": 500}}` + "\n\n"
	generateEvent  = `data: {"error":{"message":"boom","type":"invalid_request_error","code":400,"retryable":false}}` + "\n\n"
	abortEvent     = `data: {"text":"","output_ids":[],"meta_info":{"id":"a","finish_reason":{"type":"abort","message":"boom","status_code":500,"err_type":null},"prompt_tokens":0}}` + "\n\n"
	flatEvent      = `data: {"object":"error","message":"boom","type":"InternalServerError","param":null,"code":500}` + "\n\n"
	anthropicError = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n"
)

// bothKinds of them, the first, are answers to requests for a stream and to others.
const bothKinds = 17

func fastFaults(stream bool) []fastFault {
	const js, sse = "application/json", "text/event-stream; charset=utf-8"
	refusal := `{"object":"error","message":"no","type":"x","param":null,"code":0}`
	var all []fastFault
	for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 502, 503} {
		all = append(all, fastFault{name: strconv.Itoa(status), status: status, mime: js, body: refusal})
	}
	all = append(all,
		fastFault{name: "empty", status: 200, mime: js},
		fastFault{name: "error in JSON", status: 200, mime: js, body: `{"error":{"message":"boom"}}`},
		fastFault{name: "flat error in JSON", status: 200, mime: js, body: `{"object":"error","message":"boom","code":500}`},
		fastFault{name: "a page", status: 200, mime: "text/html", body: "<html><body>Bad gateway</body></html>"},
		fastFault{name: "a redirect", status: 307, mime: js},
		fastFault{name: "no content", status: 204},
		fastFault{name: "no HTTP", raw: "hello\r\n\r\n"},
		fastFault{name: "cut before text", status: 200, mime: js, body: "", cut: true})
	if !stream {
		return append(all,
			fastFault{name: "cut JSON", status: 200, mime: js, body: `{"text":"x`, cut: true},
			fastFault{name: "long cut JSON", status: 200, mime: js, body: `{"meta_info":{"id":"a"},"text":"` + strings.Repeat("x", 32<<10), cut: true},
			fastFault{name: "longer cut JSON", status: 200, mime: js, body: `{"meta_info":{"id":"a"},"text":"` + strings.Repeat("x", 128<<10), cut: true, late: true})
	}
	return append(all,
		fastFault{name: "error event", status: 200, mime: sse, body: openAIEvent + doneEvent},
		fastFault{name: "client's error event", status: 200, mime: sse, body: generateEvent + doneEvent},
		fastFault{name: "abort event", status: 200, mime: sse, body: abortEvent + doneEvent},
		fastFault{name: "flat error event", status: 200, mime: sse, body: flatEvent + doneEvent},
		fastFault{name: "named error event", status: 200, mime: sse, body: anthropicError},
		fastFault{name: "nothing but the end", status: 200, mime: sse, body: doneEvent},
		fastFault{name: "cut in the first event", status: 200, mime: sse, body: goodEvent[:20], cut: true},
		fastFault{name: "cut behind text", status: 200, mime: sse, body: goodEvent, cut: true, late: true},
		fastFault{name: "error event behind text", status: 200, mime: sse, body: goodEvent + openAIEvent + doneEvent, late: true})
}

func (f *fastFault) serve(rw http.ResponseWriter) {
	if f.raw != "" {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, f.raw)
			_ = conn.Close()
		}
		return
	}
	rw.Header().Set("Content-Type", f.mime)
	rw.WriteHeader(f.status)
	_, _ = io.WriteString(rw, f.body)
	if f.cut {
		flush(rw)
		panic(http.ErrAbortHandler)
	}
}

// computing answers as an engine does that has to compute.
func computing(asked *atomic.Int64) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		time.Sleep(10 * time.Millisecond) // longer than any fault takes; nothing rests on how long
		if !strings.Contains(string(body), `"stream":true`) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, idsReply)
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, goodEvent)
		flush(rw)
		_, _ = io.WriteString(rw, strings.Replace(goodEvent, "null", `{"type":"length","length":4}`, 1)+doneEvent)
	}
}

// isGood reports whether a client can take an answer for a good one.
func isGood(status int, body string, err error, stream bool) bool {
	if err != nil || status != http.StatusOK || strings.Contains(body, `"error"`) || strings.Contains(body, `"abort"`) {
		return false
	}
	if stream {
		return strings.HasPrefix(body, "data: {\"text\"") && strings.HasSuffix(body, doneEvent)
	}
	return body == idsReply
}

// ask sends n requests, each of so many clients one after the other, and returns the number of bad
// answers.
func (h *harness) ask(n, clients int, stream bool) (bad int64) {
	body := `{"input_ids":[%d,2,3,4,5,6,7,8,9],"sampling_params":{"max_new_tokens":4}`
	if stream {
		body += `,"stream":true`
	}
	var failed atomic.Int64
	next := make(chan int, n)
	for range n {
		h.prompts++ // no two are equal
		next <- h.prompts
	}
	close(next)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range next {
				resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", fmt.Sprintf(body+"}", i))
				if !isGood(statusOf(resp), got, err, stream) {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return failed.Load()
}

// failingFirst is four workers that compute, but for the first one, which answers by f while it
// fails.
type failingFirst struct {
	*harness
	asked   [4]atomic.Int64
	failing atomic.Bool
	first   *worker.Worker
}

func startFailing(t *testing.T, f *fastFault, options ...option) *failingFirst {
	t.Helper()
	all := &failingFirst{}
	all.failing.Store(true)
	var workers []*fakeWorker
	for i := range all.asked {
		w := newFakeWorker(t, info(1))
		w.On("/abort_request", noAborts)
		w.On("/generate", computing(&all.asked[i]))
		workers = append(workers, w)
	}
	workers[0].On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		if all.failing.Load() {
			all.asked[0].Add(1)
			f.serve(rw)
			return
		}
		computing(&all.asked[0])(rw, r)
	})
	all.harness = start(t, workers, options...)
	all.first = all.Worker(workers[0])
	return all
}

// A worker that fails faster than other workers compute looks idle. It must not draw the traffic:
// no client sees a failure that can be sent again, those that cannot open the breaker, and the worker
// is used again once it is healthy.
func TestFastFailureDrawsNoTraffic(t *testing.T) {
	t.Parallel()
	const clients = 4
	for _, stream := range []bool{false, true} {
		for i, f := range fastFaults(stream) {
			if i < bothKinds && !allDialects && stream != (i%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s/stream=%v", f.name, stream), func(t *testing.T) {
				t.Parallel() // most of it is waiting
				h := startFailing(t, &f)
				bad := int64(0)
				for h.first.Breaker.Opened() == 0 {
					if !f.late {
						assert.Zero(t, h.ask(3*clients, clients, stream), "failures that clients see")
						continue
					}
					bad += h.ask(1, 1, stream)
					h.AwaitIdle() // the client has its answer before the failure counts
				}
				if f.late { // of one client, each fault behind the first one counts once others have answered
					assert.Equal(t, bad, h.asked[0].Load(), "nothing is asked after the breaker has opened")
				} else { // two failures and one of each client, and a trial for each time that it opened again
					assert.LessOrEqual(t, h.asked[0].Load(), int64(2+clients)+int64(h.first.Breaker.Opened()-1))
				}
				h.failing.Store(false)
				require.Eventually(t, func() bool { // which takes a second: each look is some requests
					_ = h.ask(clients, clients, stream)
					return h.first.Breaker.Closed()
				}, patience, 10*tick, "the worker is well and not used")
				before := h.asked[0].Load()
				require.Eventually(t, func() bool {
					return h.ask(clients, clients, stream) == 0 && h.asked[0].Load() > before
				}, patience, 10*tick, "the worker is well and not used")
			})
		}
	}
}
