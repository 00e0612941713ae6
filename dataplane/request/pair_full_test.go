package request_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// batchOf is a decode worker that runs so many requests at once, first come, first served. Each
// answer is a stream of an event every pause, until the channel is closed.
func batchOf(places int, end <-chan struct{}, running, events *atomic.Int64) act {
	slots := make(chan struct{}, places)
	return func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if !l.waits(r, l.arrives(b)) {
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		flush(rw)
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		running.Add(1)
		defer func() { running.Add(-1); <-slots }()
		for ticker := time.NewTicker(pause); ; {
			events.Add(1)
			_, _ = io.WriteString(rw, "data: "+decodeReply+"\n\n")
			flush(rw)
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			case <-end:
				_, _ = io.WriteString(rw, "data: [DONE]\n\n")
				return
			}
		}
	}
}

// reports has a worker report its load, as often as it is asked.
func reports(l *fakeLeg, running *atomic.Int64, most int) {
	l.On("/v1/loads", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(rw, `{"loads":[{"dp_rank":0,"num_running_reqs":%d,"max_running_requests":%d}]}`, running.Load(), most)
	})
}

// shortPair is the limit of the tests, and pause the time between two events of a stream.
const (
	shortPair = time.Second
	pause     = 10 * time.Millisecond
)

// withShortPair has no request wait in the router.
func withShortPair(c *request.Config) { c.Pair.Timeout, c.Queue.MaxInFlight = shortPair, 64 }

// A request that waits for a place in the batch of a decode worker that goes on with others is
// nobody's fault, however long it takes.
func TestPairDecodeIsFull(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 2} {
		t.Run(fmt.Sprintf("says %d", most), func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			var running, events atomic.Int64
			end := make(chan struct{})
			d[0].does(batchOf(2, end, &running, &events))
			var options []option
			if most > 0 {
				reports(d[0], &running, most)
				options = append(options, withWorkers(func(c *worker.Config) { c.LoadEvery = 50 * time.Millisecond }))
			}
			h := startPair(t, p, d, append(options, withConfig(withShortPair))...)
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", pairRequest(true))
					if assert.NoError(t, err) {
						assert.Equal(t, http.StatusOK, resp.StatusCode, got)
					}
				})
			}
			for range 5 {
				<-p[0].ended // all prompts are computed: the wait for decode has begun
			}
			from := events.Load()
			require.Eventually(t, func() bool { // the limit is over for three of them, twice
				return events.Load()-from >= 2*2*int64(shortPair/pause)
			}, patience, tick, "events of the two that run")
			close(end)
			wg.Wait()
			noneBlamed(t, h)
			noneRunning(t, h)
		})
	}
}

// A decode worker that loses one request and serves others is found, whether or not they fill it.
func TestPairTransferThatNeverComes(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full=%v", full), func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			var running, events, asked atomic.Int64
			end := make(chan struct{})
			serves, lost := batchOf(1, end, &running, &events), make(chan string, 1)
			short := meets
			d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
				switch n := asked.Add(1); {
				case n == 1 && full:
					short(l, rw, r, b)
				case n == 1:
					serves(l, rw, r, b)
				case n == 2:
					l.arrives(b)
					rw.WriteHeader(http.StatusOK)
					flush(rw)
					<-r.Context().Done()
					lost <- fmt.Sprint(b.Room)
				default:
					short(l, rw, r, b)
				}
			})
			most := 8
			if full {
				most = 0 // it does not say
			}
			reports(d[0], &running, most)
			h := startPair(t, p, d, withConfig(withShortPair), withWorkers(func(c *worker.Config) { c.LoadEvery = 50 * time.Millisecond }))
			post := func(wg *sync.WaitGroup) {
				wg.Go(func() {
					resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", pairRequest(true))
					if assert.NoError(t, err) {
						assert.Contains(t, []int{http.StatusOK, http.StatusGatewayTimeout}, resp.StatusCode, got)
					}
				})
			}
			var wg sync.WaitGroup
			post(&wg)
			<-p[0].ended
			post(&wg)
			<-p[0].ended
			for gone := false; !gone; {
				if full { // requests come and go without a pause
					resp, got := h.Post("/generate", pairRequest(true))
					require.Equal(t, http.StatusOK, resp.StatusCode, got)
					<-p[0].ended
					<-d[0].ended
				}
				select {
				case <-lost:
					gone = true
				case <-time.After(tick):
				}
			}
			close(end)
			wg.Wait()
			noneRunning(t, h)
		})
	}
}

// A time-out ends a request at a worker that is at work, and is not its fault: the request waits in
// a queue, or was put back there.
func TestTimeoutsOfBusyWorkers(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	var running atomic.Int64
	polled := withWorkers(func(c *worker.Config) { c.LoadEvery = 50 * time.Millisecond })
	reporting := func(h *harness) {
		require.Eventually(t, func() bool {
			for _, r := range h.Registry.Snapshot().Ranks {
				if !r.Load.Reporting(time.Now()) {
					return false
				}
			}
			return true
		}, patience, tick)
	}
	for _, leg := range []string{"prefill", "decode"} {
		t.Run("no answer of "+leg, func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			reports(p[0], &running, 2)
			reports(d[0], &running, 2)
			p[0].does(hangs)
			d[0].does(hangs)
			h := startPair(t, p, d, polled, withConfig(func(c *request.Config) {
				if leg == "prefill" {
					c.Pair.PrefillTimeout = limit
				} else {
					c.Pair.PrefillTimeout, c.FirstByteTimeout = patience, limit
				}
			}))
			reporting(h)
			resp, got := h.Post("/generate", pairRequest(false))
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode, got)
			for _, w := range h.Registry.Snapshot().Workers {
				assert.Zero(t, w.Breaker.Faults(), w.URL)
			}
			noneRunning(t, h)
		})
	}
	t.Run("stream that pauses", func(t *testing.T) {
		t.Parallel()
		w := newFakeWorker(t, info(1))
		reports(&fakeLeg{fakeWorker: w}, &running, 2)
		w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: "+decodeReply+"\n\n")
			flush(rw)
			<-r.Context().Done()
		})
		h := start(t, []*fakeWorker{w}, polled, withConfig(func(c *request.Config) { c.StallTimeout = limit }))
		reporting(h)
		_, got := h.Post("/generate", pairRequest(true))
		assert.Contains(t, got, `"code":"upstream_error"`, "the client is told")
		h.AwaitIdle()
		for _, w := range h.Registry.Snapshot().Workers {
			assert.Zero(t, w.Breaker.Faults(), w.URL)
		}
	})
}

// The log probabilities of a long prompt may take their time, as long as they come.
func TestPairLogprobsComeSlowly(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	const lists = `{"text":"a","meta_info":{"id":"x","input_token_logprobs":[[null,1,null]]}}`
	p[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if !l.waits(r, l.arrives(b)) {
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		for i := range lists {
			_, _ = io.WriteString(rw, lists[i:i+1])
			flush(rw)
			select {
			case <-time.After(3 * shortPair / time.Duration(len(lists))):
			case <-r.Context().Done():
			}
		}
	})
	d[0].does(replies(`{"text":"b","meta_info":{"id":"x","input_token_logprobs":[]}}`))
	h := startPair(t, p, d, withConfig(withShortPair))
	resp, got := h.Post("/generate", `{"input_ids":[1],"return_logprob":true}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, `{"text":"b","meta_info":{"id":"x","input_token_logprobs":[[null,1,null]]}}`, got)
	noneBlamed(t, h)
	noneRunning(t, h)
}

// A request waits while no pair has room at both workers, is sent as soon as one has, and the
// queue ends empty. Either worker may be the full one: with two prefill workers and one decode
// worker, it is the latter.
func TestPairQueue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		prefills, decodes int
	}{{"decode is full", 2, 1}, {"prefill is full", 1, 2}, {"both are", 1, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newPair(t, tt.prefills, tt.decodes, 1)
			finish := make(chan struct{})
			for _, l := range append(append([]*fakeLeg(nil), p...), d...) {
				l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
					room := l.arrives(b)
					<-finish
					if l.waits(r, room) {
						says(http.StatusOK, "application/json", decodeReply)(l, rw, r, b)
					}
				})
			}
			h := startPair(t, p, d, withConfig(func(c *request.Config) { c.Queue.MaxInFlight, c.Queue.Timeout = 2, patience }))
			const requests = 8
			var wg sync.WaitGroup
			counted := func() (n int64) {
				st := h.Admin.Status()
				for _, w := range st.Workers {
					if w.Role == "decode" {
						n += w.Load.OwnInFlight
					}
				}
				return n + int64(st.Queue.Waiting)
			}
			for i := range requests { // one after the other: those of one instant pass before the first is counted
				require.Eventually(t, func() bool { return counted() == int64(i) }, patience, tick, "not all are sent or wait")
				wg.Go(func() {
					resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", pairRequest(false))
					if assert.NoError(t, err) {
						assert.Equal(t, http.StatusOK, resp.StatusCode)
						assert.Equal(t, decodeReply, got)
					}
				})
			}
			require.Eventually(t, func() bool {
				q := h.Admin.Status().Queue
				return q.Waiting > 0 && h.Admin.Status().InFlight == requests
			}, patience, tick, "nobody waits")
			close(finish)
			wg.Wait()
			noneRunning(t, h)
			require.Eventually(t, func() bool { return h.Admin.Status().Queue.Waiting == 0 }, patience, 10*time.Millisecond)
		})
	}
}
