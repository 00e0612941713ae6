package request_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closesAll makes a worker that answers its probes and closes the connections of requests, each
// after up to 20 ms. It returns their number.
func closesAll(w *fakeWorker, seed uint64) *atomic.Int64 {
	var mu sync.Mutex
	rng, asked := rand.New(rand.NewPCG(seed, 0)), new(atomic.Int64)
	w.On("/generate", func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		mu.Lock()
		pause := rng.IntN(20)
		mu.Unlock()
		time.Sleep(time.Duration(pause) * time.Millisecond)
		panic(http.ErrAbortHandler)
	})
	return asked
}

func fakes(t *testing.T, n int) (workers []*fakeWorker) {
	t.Helper()
	for range n {
		w := newFakeWorker(t, info(1))
		w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Millisecond)
			_, _ = io.WriteString(rw, idsReply)
		})
		workers = append(workers, w)
	}
	return workers
}

// clients sends bodies from so many clients at once, each the next one when it has its answer.
func (h *harness) clients(clients, each int, body func(client, nth int) string, check func(status int, answer string)) {
	h.t.Helper()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range each {
				resp, answer, err := h.Try(http.MethodPost, h.Base+"/generate", body(c, n))
				if assert.NoError(h.t, err) {
					check(resp.StatusCode, answer)
				}
			}
		})
	}
	wg.Wait()
}

func (h *harness) allAnswered(status int, answer string) {
	assert.Equal(h.t, http.StatusOK, status, answer)
}

// TestAnIllWorkerKeepsNoRequests: one of four workers is ready and closes connections. While its
// breaker is open, it is asked only where no other worker can serve.
func TestAnIllWorkerKeepsNoRequests(t *testing.T) {
	const clients, each = 16, 40
	workers := fakes(t, 4)
	asked := closesAll(workers[0], 1)
	h := start(t, workers, withPolicy("round-robin"))
	h.clients(clients, each, func(c, n int) string {
		return fmt.Sprintf(`{"text":"client %d asks %d","sampling_params":{"max_new_tokens":4}}`, c, n)
	}, h.allAnswered)
	assert.Less(t, asked.Load(), int64(clients*each/4), "of %d requests", clients*each)
}

// TestClosedConnectionsAreNoDeaths: a prompt that many clients send has ended no engine because two
// workers close connections.
func TestClosedConnectionsAreNoDeaths(t *testing.T) {
	workers := fakes(t, 4)
	closesAll(workers[0], 1)
	closesAll(workers[1], 2)
	h := start(t, workers, withPolicy("round-robin"), withQuarantine)
	h.clients(16, 20, func(_, n int) string {
		if n%2 == 0 {
			return idsBody
		}
		return fmt.Sprintf(`{"text":"question %d"}`, n)
	}, h.allAnswered)
}

func withQuarantine(s *settings) { s.Request.Quarantine = time.Hour }

// TestEqualNewPromptsGoToAll: samples of a rollout are many equal requests at once.
func TestEqualNewPromptsGoToAll(t *testing.T) {
	workers, hung := hangingWorkers(t, 8)
	h := start(t, workers, withPolicy("round-robin"))
	var answers []<-chan waited
	for range 32 {
		answers = append(answers, h.asks(idsBody))
	}
	for _, g := range hung {
		select {
		case <-g.arrived:
		case <-time.After(patience):
			t.Fatal("a worker gets none of them")
		}
	}
	for _, g := range hung {
		close(g.goOn)
	}
	for _, a := range answers {
		assert.Equal(t, http.StatusOK, (<-a).status)
	}
}

// diesOf has a worker's process end when a body contains POISON.
func diesOf(w *fakeWorker, deaths *atomic.Int64, otherwise http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if !strings.Contains(w.LastBody(), "POISON") {
			otherwise(rw, r)
			return
		}
		deaths.Add(1)
		_ = w.Close()
		panic(http.ErrAbortHandler)
	}
}

// TestARequestIsInFlightAtTwoDeaths: then it gets an error, and is refused only by flag. Of pairs, the prefill workers compute it.
func TestARequestIsInFlightAtTwoDeaths(t *testing.T) {
	const poison = `{"rid":"%d","text":"take this POISON","sampling_params":{"max_new_tokens":4}}`
	for name, c := range map[string]struct {
		options []option
		pairs   bool
		deaths  int64 // of two copies
	}{
		"remembered": {[]option{withQuarantine}, false, 2},
		"forgotten":  {nil, false, 4},
		"of pairs":   {[]option{withQuarantine}, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			workers, deaths := []*fakeWorker(nil), new(atomic.Int64)
			if c.pairs {
				p, d := newPair(t, 4, 1, 1)
				for _, l := range p {
					workers = append(workers, l.fakeWorker)
					l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
						diesOf(l.fakeWorker, deaths, func(http.ResponseWriter, *http.Request) { meets(l, rw, r, b) })(rw, r)
					})
				}
				workers = append(workers, d[0].fakeWorker)
			} else {
				workers = fakes(t, 5)
				for _, w := range workers {
					w.On("/generate", diesOf(w, deaths, givesReply))
				}
			}
			h := start(t, workers, c.options...)
			for i := range 2 {
				resp, answer := h.Post("/generate", fmt.Sprintf(poison, i))
				require.Equal(t, http.StatusBadRequest, resp.StatusCode, answer)
				assert.Contains(t, answer, "request_ends_engines")
			}
			assert.Equal(t, c.deaths, deaths.Load())
			resp, answer := h.Post("/generate", `{"text":"another"}`)
			assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
			caught, refused := h.Requests.Culprits()
			assert.Equal(t, uint64(c.deaths)/2, caught)
			assert.Equal(t, 2-uint64(c.deaths)/2, refused)
		})
	}
}

// TestADeathHoldsUpNobody: many requests are in flight at a worker whose process ends.
func TestADeathHoldsUpNobody(t *testing.T) {
	const each = 15
	workers, hung := hangingWorkers(t, 3)
	h := start(t, workers, withPolicy("round-robin"), withQuarantine)
	var answers []<-chan waited
	for i := range 3 * each {
		answers = append(answers, h.asks(fmt.Sprintf(`{"text":"question %d"}`, i)))
	}
	for _, g := range hung {
		for range each {
			<-g.arrived
		}
	}
	_ = hung[0].Close()
	for range each {
		select {
		case <-hung[1].arrived:
		case <-hung[2].arrived:
		}
	}
	for _, g := range hung {
		close(g.goOn)
	}
	for _, a := range answers {
		got := <-a
		assert.Equal(t, http.StatusOK, got.status, got.body)
	}
	caught, refused := h.Requests.Culprits()
	assert.Zero(t, caught+refused)
}

// hangingWorkers are workers whose requests wait for goOn.
func hangingWorkers(t *testing.T, n int) (workers []*fakeWorker, hung []*hanging) {
	t.Helper()
	for range n {
		g := hang(newFakeWorker(t, info(1)), givesReply, "/generate")
		hung, workers = append(hung, g), append(workers, g.fakeWorker)
	}
	return workers, hung
}

// TestAHangIsNoReasonToHangAll: the process of an engine whose scheduler has died answers nothing
// for a while.
func TestAHangIsNoReasonToHangAll(t *testing.T) {
	workers, hung := hangingWorkers(t, 4)
	h := start(t, workers, withWorkers(quickHung))
	answer := h.asks(`{"text":"take this","stream":true}`)
	for range 2 {
		h.hangsWithIt(hung)
	}
	got := <-answer
	assert.GreaterOrEqual(t, got.status, http.StatusInternalServerError, got.body)
	for _, g := range hung {
		assert.Empty(t, g.arrived, "a third worker is asked")
		close(g.goOn)
	}
}

// hangsWithIt waits until a worker gets a request, and has it hang.
func (h *harness) hangsWithIt(hung []*hanging) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		for _, g := range hung {
			select {
			case <-g.arrived:
				g.stopsAnswering()
				return true
			default:
			}
		}
		return false
	}, patience, tick, "no worker is asked")
}
