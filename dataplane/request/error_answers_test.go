package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// answering makes a worker answer /generate with a status.
func answering(w *fakeWorker, status int, body string, asked *atomic.Int64, header ...string) {
	w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			rw.Header().Set(header[i], header[i+1])
		}
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body)
	})
}

func breakers(h *harness) (states []string) {
	for _, w := range h.Registry.Snapshot().Workers {
		if !w.Breaker.Closed() {
			states = append(states, w.URL)
		}
	}
	return states
}

// A mistake that every worker refuses is the client's: no breaker opens, few requests are sent
// twice, and the client gets a worker's own answer.
func TestClientsMistakesAreNotTheWorkers(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404, 413, 422} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var workers []*fakeWorker
			var asked atomic.Int64
			words := fmt.Sprintf(`{"error":{"message":"no","code":%d}}`, status)
			for range 4 {
				w := newFakeWorker(t, info(1))
				answering(w, status, words, &asked)
				workers = append(workers, w)
			}
			h := start(t, workers)
			const n, bucket = 100, 24 // requests; retries at once, and one more each second
			began := time.Now()
			for range n {
				resp, got := h.Post("/generate", idsBody)
				require.Equal(t, status, resp.StatusCode)
				require.Equal(t, words, got)
			}
			assert.Empty(t, breakers(h))
			most := n + bucket + time.Since(began).Seconds() + 1
			assert.LessOrEqual(t, float64(asked.Load()), most, "retries are beyond the budget")
		})
	}
}

// The same among good answers, which end runs of errors.
func TestMistakesAmongGoodAnswers(t *testing.T) {
	var workers []*fakeWorker
	var mistakes atomic.Int64
	for range 4 {
		w := newFakeWorker(t, info(1))
		w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if len(body) < 100 {
				mistakes.Add(1)
				rw.WriteHeader(http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(rw, idsReply)
		})
		workers = append(workers, w)
	}
	h := start(t, workers)
	const n = 600
	for i := range n {
		if i%3 == 0 {
			resp, _ := h.Post("/generate", `{"text":"x"}`)
			require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		} else {
			resp, _ := h.Post("/generate", idsBody)
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
	}
	assert.Empty(t, breakers(h))
	assert.LessOrEqual(t, mistakes.Load(), int64(n/3+n/15), "mistakes that were sent again")
}

// Where all workers refuse, the client gets a worker's answer unchanged; of several 429 and
// 503, the one with the soonest Retry-After.
func TestAllWorkersRefuse(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 429, 500, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var workers []*fakeWorker
			var asked atomic.Int64
			for i := range 3 {
				w := newFakeWorker(t, info(1))
				answering(w, status, `{"detail":"own words"}`, &asked, "Retry-After", strconv.Itoa(30-10*((i+1)%3)), "X-Own", "yes")
				workers = append(workers, w)
			}
			h := start(t, workers)
			resp, got := h.Post("/generate", idsBody)
			assert.Equal(t, status, resp.StatusCode)
			assert.Equal(t, `{"detail":"own words"}`, got)
			assert.Equal(t, "yes", resp.Header.Get("X-Own"))
			assert.NotEmpty(t, resp.Header.Get("X-Warmpath-Worker"))
			assert.LessOrEqual(t, asked.Load(), int64(3))
			if status == 429 {
				assert.EqualValues(t, 3, asked.Load())
			}
			for range 20 {
				resp, _ := h.Post("/generate", idsBody)
				assert.Equal(t, status, resp.StatusCode)
			}
		})
	}
}

// A worker that fails a third of its requests after the answer has begun is avoided after the fifth,
// though it never fails three in a row.
func TestWorkerThatFailsAThird(t *testing.T) {
	t.Parallel()
	var asked [4]atomic.Int64
	var workers []*fakeWorker
	for i := range asked {
		w := newFakeWorker(t, info(1))
		w.On("/abort_request", noAborts)
		w.On("/generate", computing(&asked[i]))
		workers = append(workers, w)
	}
	workers[0].On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		if asked[0].Load()%3 == 2 {
			asked[0].Add(1)
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, goodEvent)
			flush(rw)
			panic(http.ErrAbortHandler)
		}
		computing(&asked[0])(rw, r)
	})
	h := start(t, workers, withPolicy("round-robin"))
	bad := int64(0)
	for first := h.Worker(workers[0]); first.Breaker.Opened() == 0; h.AwaitIdle() {
		bad += h.ask(1, 1, true)
	}
	assert.EqualValues(t, []int64{5, 15}, []int64{bad, asked[0].Load()}, "lost, and asked")
}

// A request that goes on behind its answer is sent once, whichever error is answered.
func TestResponsesInTheBackgroundAreSentOnce(t *testing.T) {
	var asked atomic.Int64
	var workers []*fakeWorker
	for range 3 {
		w := newFakeWorker(t, info(1))
		w.On("/v1/responses", func(rw http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			rw.WriteHeader(http.StatusInternalServerError)
		})
		workers = append(workers, w)
	}
	h := start(t, workers)
	resp, _ := h.Post("/v1/responses", `{"input":"x","background":true}`)
	assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	assert.EqualValues(t, 1, asked.Load())
	h.Post("/v1/responses", `{"input":"x"}`)
	assert.EqualValues(t, 3, asked.Load(), "others are computed only: two workers are asked")
}

// A request that goes on behind its answer is sent once, whatever becomes of its connection: it is
// sent elsewhere only where it has reached nobody.
func TestResponsesInTheBackgroundAreNotSentAgain(t *testing.T) {
	t.Parallel()
	const background = `{"input":"x","background":true}`
	answers := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, responseReply)
	}
	t.Run("lost connection", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		var workers []*fakeWorker
		for range 3 {
			w := newFakeWorker(t, info(1))
			w.Dies("/v1/responses", func(http.ResponseWriter) { asked.Add(1) })
			workers = append(workers, w)
		}
		resp, got := start(t, workers).Post("/v1/responses", background)
		assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
		assert.EqualValues(t, 1, asked.Load())
	})
	t.Run("closed connection", func(t *testing.T) {
		t.Parallel()
		var stale atomic.Int64
		var mu sync.Mutex
		used := map[string]bool{} // guarded by mu
		w := newFakeWorker(t, info(1))
		w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			again := used[r.RemoteAddr]
			used[r.RemoteAddr] = true
			mu.Unlock()
			if again {
				stale.Add(1)
				panic(http.ErrAbortHandler)
			}
			answers(rw, r)
		})
		h := start(t, []*fakeWorker{w})
		for range 3 {
			resp, got := h.Post("/v1/responses", background)
			require.Equal(t, http.StatusOK, resp.StatusCode, got)
		}
		assert.Zero(t, stale.Load(), "requests on connections that may be closed")
	})
	t.Run("refused connection", func(t *testing.T) {
		t.Parallel()
		gone, w := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
		w.On("/v1/responses", answers)
		h := start(t, []*fakeWorker{gone, w}, withPolicy("round-robin"))
		_ = gone.Close()
		for range 2 {
			resp, got := h.Post("/v1/responses", background)
			require.Equal(t, http.StatusOK, resp.StatusCode, got)
		}
	})
	t.Run("worker that hangs", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		hung, other := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
		goOn := make(chan struct{})
		for _, w := range []*fakeWorker{hung, other} {
			w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					answers(rw, r)
					return
				}
				w.On("/ready", func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
					case <-goOn:
					}
				})
				select {
				case <-r.Context().Done():
				case <-goOn:
					answers(rw, r)
				}
			})
		}
		h := start(t, []*fakeWorker{hung, other}, withWorkers(soonHung))
		done := make(chan int, 1)
		go func() {
			resp, _ := h.Post("/v1/responses", background)
			done <- resp.StatusCode
		}()
		// Plain requests leave the worker once it hangs, so this one would have left it too.
		require.Eventually(t, func() bool { return asked.Load() == 1 }, patience, tick)
		slow := func() *worker.Worker {
			for _, w := range h.Registry.Snapshot().Workers {
				if w.Probed() == worker.Slow {
					return w
				}
			}
			return nil
		}
		require.Eventually(t, func() bool { return slow() != nil }, patience, tick)
		slow().Await(func(bool) bool { close(goOn); return true })
		assert.Equal(t, http.StatusOK, <-done)
		assert.EqualValues(t, 1, asked.Load())
	})
}

// Two of four workers with the same error do not confirm each other.
func TestHalfOfTheWorkersFailAlike(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 500} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var asked [4]atomic.Int64
			var workers []*fakeWorker
			for i := range asked {
				w := newFakeWorker(t, info(1))
				if i < 2 {
					answering(w, status, `{"detail":"own words"}`, &asked[i])
				} else {
					w.On("/generate", computing(&asked[i]))
				}
				workers = append(workers, w)
			}
			h := start(t, workers)
			bad := int64(0)
			for len(breakers(h)) < 2 {
				bad += h.ask(24, 8, false)
			}
			// Each is credible for three errors. They may confirm each other's first, third and seventh,
			// which leaves 1 and 3 others without a second opinion.
			assert.LessOrEqual(t, bad, int64(2*7))
			assert.Zero(t, h.ask(24, 8, false), "both are found out")
		})
	}
}

// A failure of one leg that looks like a refusal leads to another pair.
func TestPairRefusalsOfOneWorker(t *testing.T) {
	t.Parallel()
	const words = `{"object":"error","message":"no","code":401}`
	for _, leg := range []string{"prefill", "decode"} {
		for _, tt := range []struct {
			name string
			act  act
		}{
			{"401", says(http.StatusUnauthorized, "application/json", words)},
			{"429", says(http.StatusTooManyRequests, "application/json", words)},
			{"error event", says(http.StatusOK, "text/event-stream", generateEvent+doneEvent)},
		} {
			t.Run(leg+" "+tt.name, func(t *testing.T) {
				p, d := newPair(t, 2, 2, 1)
				bad := p[0]
				if leg == "decode" {
					bad = d[0]
				}
				bad.does(tt.act)
				h := startPair(t, p, d, withPolicy("round-robin"))
				for range 12 {
					resp, got := h.Post("/generate", pairRequest(true))
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.Equal(t, pairReply(true), got)
				}
				assert.Positive(t, h.Worker(bad.fakeWorker).Breaker.Opened())
				noneRunning(t, h)
			})
		}
	}
}

// saysWith answers with a header of its own too.
func saysWith(status int, body string) act {
	return func(_ *fakeLeg, rw http.ResponseWriter, _ *http.Request, _ *pairBody) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Retry-After", "7")
		rw.Header().Set("X-Engine", "mine")
		rw.Header().Set("X-Warmpath-Worker", "mine")
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body)
	}
}

// The error of all pairs reaches the client as a worker gave it, whichever half gave it, as that of
// whole workers does.
func TestErrorOfAllPairs(t *testing.T) {
	t.Parallel()
	const reply = `{"error":{"message":"CUDA error: mine","code":500}}`
	for _, status := range []int{400, 429, 500, 503} {
		for _, failing := range []string{"prefill", "decode", "both"} {
			for _, pairs := range []int{1, 2} {
				t.Run(fmt.Sprint(status, " ", failing, " ", pairs), func(t *testing.T) {
					t.Parallel()
					p, d := newPair(t, pairs, pairs, 1)
					for i := range pairs {
						if failing != "decode" {
							p[i].does(saysWith(status, reply))
						}
						if failing != "prefill" {
							d[i].does(saysWith(status, reply))
						}
					}
					h := startPair(t, p, d)
					for _, stream := range []bool{false, true} {
						resp, got := h.Post("/generate", pairRequest(stream))
						require.Equal(t, status, resp.StatusCode, got)
						assert.Equal(t, reply, got)
						assert.Equal(t, "7", resp.Header.Get("Retry-After"))
						assert.Equal(t, "mine", resp.Header.Get("X-Engine"))
						assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
						assert.NotEqual(t, "mine", resp.Header.Get("X-Warmpath-Worker"))
					}
					noneRunning(t, h)
				})
			}
		}
	}
}

// An error inside a stream is an answer too, and that of a transfer is the cluster's own.
func TestErrorInStreamOfAllPairs(t *testing.T) {
	t.Parallel()
	const event = `data: {"error":{"message":"CUDA error: mine","code":%d}}` + "\n\ndata: [DONE]\n\n"
	for _, status := range []int{400, 500, 503} {
		for _, failing := range []string{"prefill", "decode"} {
			t.Run(fmt.Sprint(status, " ", failing), func(t *testing.T) {
				t.Parallel()
				p, d := newPair(t, 2, 2, 1)
				legs := p
				if failing == "decode" {
					legs = d
				}
				for _, l := range legs {
					l.does(says(http.StatusOK, "text/event-stream", fmt.Sprintf(event, status)))
				}
				h := startPair(t, p, d)
				resp, got := h.Post("/generate", pairRequest(true))
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Contains(t, got, "CUDA error: mine")
				assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
				for _, l := range legs {
					l.does(says(http.StatusInternalServerError, "application/json", `{"detail":"Decode transfer failed"}`))
				}
				resp, got = h.Post("/generate", pairRequest(true))
				assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
				noneRunning(t, h)
			})
		}
	}
}

// A worker that is full, or ill, confirms no mistake: few others would be asked about it later.
func TestMistakesThatNobodyConfirms(t *testing.T) {
	t.Parallel()
	for _, first := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			workers := []*fakeWorker{newFakeWorker(t, info(1)), newFakeWorker(t, info(1))}
			for _, w := range workers {
				w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
					status := first
					if asked.Add(1)%2 == 0 {
						status = http.StatusBadRequest
					}
					rw.WriteHeader(status)
				})
			}
			h := start(t, workers)
			for range 4 {
				h.Post("/generate", idsBody)
			}
			assert.EqualValues(t, 8, asked.Load())
			for _, w := range h.Registry.Snapshot().Workers {
				assert.True(t, w.NeedsSecondOpinion(http.StatusBadRequest), w.URL)
			}
		})
	}
}
