package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// dialect is the language of an API, of clients and workers.
type dialect struct {
	path, body  string // a request with %s in its prompt, without its end
	reply       string // in one piece
	begin, rest string // a stream: some text, and all behind it
	fails       string // an event that reports an error behind the text
}

var dialects = map[string]dialect{
	"generate":    {"/generate", `{"text":"%s"`, idsReply, goodEvent, goodEvent + doneEvent, openAIEvent + doneEvent},
	"completions": {"/v1/completions", `{"model":"tiny","prompt":"%s"`, choicesReply, choicesEvent, doneEvent, openAIEvent + doneEvent},
	"chat":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"%s"}]`, choicesReply, choicesEvent, doneEvent, openAIEvent + doneEvent},
	"messages":    {"/v1/messages", `{"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":"%s"}]`, messageReply, messageStart + messageText, messageEnd, messageError},
	"responses":   {"/v1/responses", `{"model":"tiny","input":"%s"`, responseReply, responseBegin + responseDelta, responseEnd, responseFailed},
}

const (
	choicesReply = `{"id":"1","model":"tiny","choices":[{"text":"a","message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	choicesEvent = "data: {\"choices\":[{\"text\":\"a\",\"delta\":{\"content\":\"a\"}}]}\n\n"
)

// request returns a body.
func (d *dialect) request(prompt string, stream bool) string {
	return fmt.Sprintf(d.body, prompt) + fmt.Sprintf(`,"stream":%t}`, stream)
}

// answers answers well.
func (d *dialect) answers(rw http.ResponseWriter, stream bool) {
	if stream {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, d.begin)
		flush(rw)
		_, _ = io.WriteString(rw, d.rest)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(rw, d.reply)
}

func (d *dialect) good(resp *http.Response, got string, err error, stream bool) bool {
	if err != nil || resp.StatusCode != http.StatusOK {
		return false
	}
	return got == d.reply || stream && got == d.begin+d.rest
}

// illnesses are the ways in which a worker, or all workers for an ill client, fail a request.
var illnesses = map[string]struct {
	late  bool // behind some text: nothing can be sent again
	serve func(d *dialect, rw http.ResponseWriter, stream bool)
}{
	"500": {serve: func(_ *dialect, rw http.ResponseWriter, _ bool) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(rw, `{"error":{"message":"boom"}}`)
	}},
	"no answer": {serve: func(_ *dialect, rw http.ResponseWriter, stream bool) {
		rw.Header().Set("Content-Type", "application/json")
		if stream {
			rw.Header().Set("Content-Type", "text/event-stream")
		}
	}},
	"lost connection": {serve: func(*dialect, http.ResponseWriter, bool) { panic(http.ErrAbortHandler) }},
	"no HTTP": {serve: func(_ *dialect, rw http.ResponseWriter, _ bool) {
		(&fastFault{raw: "hello\r\n\r\n"}).serve(rw)
	}},
	"error behind text": {late: true, serve: func(d *dialect, rw http.ResponseWriter, stream bool) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, d.begin)
		flush(rw)
		_, _ = io.WriteString(rw, d.fails)
	}},
	"cut behind text": {late: true, serve: func(d *dialect, rw http.ResponseWriter, stream bool) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, d.begin)
		flush(rw)
		panic(http.ErrAbortHandler)
	}},
}

const killer = "boom"

// patients are four workers of one kind, or two pairs, that answer all APIs. ill says whether a
// worker fails a request.
func patients(t *testing.T, pairs bool, illness string, ill func(worker int, body string) bool, options ...option) (*harness, []*fakeWorker) {
	t.Helper()
	serve, late := illnesses[illness].serve, illnesses[illness].late
	var workers []*fakeWorker
	if !pairs {
		for i := range 4 {
			w := newFakeWorker(t, info(1))
			w.On("/abort_request", noAborts)
			for _, d := range dialects {
				w.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					stream := strings.Contains(string(body), `"stream":true`)
					if ill(i, string(body)) {
						serve(&d, rw, stream)
					} else {
						d.answers(rw, stream)
					}
				})
			}
			workers = append(workers, w)
		}
		return start(t, workers, options...), workers
	}
	p, q := newPair(t, 2, 2, 1)
	for i, l := range append(p, q...) {
		l.On("/abort_request", noAborts)
		for _, d := range dialects {
			l.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var b pairBody
				if json.Unmarshal(body, &b) != nil {
					rw.WriteHeader(http.StatusBadRequest)
					return
				}
				fails := ill(i, string(body))
				switch {
				case fails && !late:
					serve(&d, rw, b.Stream)
				case !l.waits(r, l.arrives(&b)):
				case fails && !l.prefill:
					serve(&d, rw, b.Stream)
				default:
					d.answers(rw, b.Stream)
				}
			})
		}
		workers = append(workers, l.fakeWorker)
	}
	return start(t, workers, options...), workers
}

// trusting takes the clients' addresses from X-Forwarded-For.
func trusting(t *testing.T) option {
	t.Helper()
	trusted, err := worker.ParseNetworks([]string{"127.0.0.1"})
	require.NoError(t, err)
	return withConfig(func(c *request.Config) { c.Proxies = trusted })
}

// TestOneClientOpensNoBreaker: two of three requests are of one client and fail at every worker. No
// breaker opens, whether the router knows the client by its key or its address, or cannot tell it
// from the others and its prompts are equal; the others have all their answers.
func TestOneClientOpensNoBreaker(t *testing.T) {
	t.Parallel()
	for _, pairs := range []bool{false, true} {
		for illness, kind := range illnesses {
			for _, known := range []string{"key", "address", "equal prompts"} {
				rounds := clientRounds
				switch {
				case known == "equal prompts": // of one API
					rounds = 4
				case pairs: // a failed request is tried again after a pause
					rounds = 1
				}
				if kind.late { // each is asked of one worker
					rounds *= 2
				}
				if pairs && known == "key" {
					continue
				}
				t.Run(fmt.Sprintf("pairs=%t/%s/%s", pairs, illness, known), func(t *testing.T) {
					t.Parallel()
					options := []option{trusting(t)}
					if known == "key" {
						options = []option{withKeys(keysOf(t, "ill", "well"))}
					}
					h, workers := patients(t, pairs, illness, func(_ int, body string) bool {
						return strings.Contains(body, killer)
					}, options...)
					asks := func(d *dialect, i, turn int, stream bool) {
						prompt, header := fmt.Sprintf("%s %d %d", killer, i, turn), []string{"X-Forwarded-For", "10.0.0.1"}
						well := turn == 2
						switch {
						case well:
							prompt, header = fmt.Sprintf("hello %d", i), []string{"X-Forwarded-For", fmt.Sprintf("10.0.1.%d", i)}
						case known == "equal prompts":
							prompt = killer
						}
						switch known {
						case "equal prompts":
							header = nil
						case "key":
							header = by([]string{"ill", "well"}[turn/2])
						}
						resp, got, err := h.Try(http.MethodPost, h.Base+d.path, d.request(prompt, stream), header...)
						assert.Equal(t, well, d.good(resp, got, err, stream), "%s: %s %v", prompt, got, err)
					}
					for i := range rounds {
						for api, d := range dialects {
							if known == "equal prompts" && api != "chat" {
								continue // a prompt of another API is another prompt, each of which weighs once
							}
							for turn := range 3 {
								asks(&d, i, turn, kind.late || (i+turn)%2 == 0)
							}
						}
					}
					h.AwaitIdle()
					for i, w := range workers {
						assert.Zero(t, h.Worker(w).Breaker.Opened(), "the breaker of worker %d has opened", i)
					}
				})
			}
		}
	}
}

// TestOneGatewayOpensTheBreakerOfAnIllWorker: all requests come from one address, each with a prompt
// of its own, and one worker fails them all. Its breaker opens and no other one, and beside what it
// fails behind text the client has all answers.
func TestOneGatewayOpensTheBreakerOfAnIllWorker(t *testing.T) {
	t.Parallel()
	for _, pairs := range []bool{false, true} {
		for illness, kind := range illnesses {
			for _, bad := range []int{0, 2} {
				if pairs && kind.late && bad == 0 || !pairs && bad > 0 {
					continue // a prefill worker has no text
				}
				t.Run(fmt.Sprintf("pairs=%t/%s/%d", pairs, illness, bad), func(t *testing.T) {
					h, workers := patients(t, pairs, illness, func(worker int, _ string) bool { return worker == bad }, withPolicy("round-robin"))
					ill := h.Worker(workers[bad])
					lost := 0
					for i := 0; ill.Breaker.Opened() == 0; i++ {
						require.Less(t, i, 60, "its breaker does not open")
						for _, d := range dialects {
							stream := kind.late || i%2 == 0
							resp, got, err := h.Try(http.MethodPost, h.Base+d.path, d.request(fmt.Sprint("hello ", i), stream))
							if !d.good(resp, got, err, stream) {
								lost++
							}
							h.AwaitIdle()
						}
					}
					if kind.late {
						assert.LessOrEqual(t, lost, 8)
					} else {
						assert.Zero(t, lost)
					}
					for i, w := range workers {
						assert.Equal(t, i == bad, h.Worker(w).Breaker.Opened() > 0, "worker %d", i)
					}
				})
			}
		}
	}
}

// TestAWorkerThatFailsAllAtOnce: one of four workers answers all waiting requests with an error at
// once. The other workers answer them, also while an ill client has used up its second opinions.
func TestAWorkerThatFailsAllAtOnce(t *testing.T) {
	t.Parallel()
	const n = waitingAtOnce
	for _, status := range []int{500, 401} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			var workers []*fakeWorker
			var waiting atomic.Int64
			fail := make(chan struct{})
			for i := range 4 {
				w := newFakeWorker(t, info(1))
				w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					switch {
					case strings.Contains(string(body), killer):
						rw.WriteHeader(status)
						return
					case i == 0:
						waiting.Add(1)
						select {
						case <-fail:
							rw.WriteHeader(status)
						case <-r.Context().Done():
						}
						return
					}
					_, _ = io.WriteString(rw, idsReply)
				})
				workers = append(workers, w)
			}
			h := start(t, workers, withPolicy("round-robin"), trusting(t))
			var wg sync.WaitGroup
			var lost atomic.Int64
			for i := 0; waiting.Load() < n; i++ {
				reached := waiting.Load()
				done := make(chan struct{})
				wg.Go(func() {
					defer close(done)
					resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", fmt.Sprintf(`{"text":"%d"}`, i), "X-Forwarded-For", fmt.Sprintf("10.0.1.%d", i%250))
					if !isGood(statusOf(resp), got, err, false) {
						lost.Add(1)
					}
				})
				require.Eventually(t, func() bool {
					select {
					case <-done:
						return true
					default:
						return waiting.Load() > reached
					}
				}, patience, tick/5)
			}
			for i := range 60 {
				if status < 500 {
					break // confirmed failures need no second answer for a while
				}
				resp, _ := h.Do(http.MethodPost, h.Base+"/generate", fmt.Sprintf(`{"text":"%s %d"}`, killer, i), "X-Forwarded-For", "10.0.0.1")
				require.NotEqual(t, http.StatusOK, resp.StatusCode, "an ill client is answered")
			}
			close(fail)
			wg.Wait()
			assert.Zero(t, lost.Load(), "of %d requests that waited", n)
			for _, w := range workers[1:] {
				assert.Zero(t, h.Worker(w).Breaker.Opened())
			}
		})
	}
}
