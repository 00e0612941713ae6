package admin

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// traffic reads the counts that the history is made of, and keeps the request rates of ranks
// between two readings.
type traffic struct {
	requests *request.Handler
	registry *worker.Registry
	// Prefill time of cached tokens, at the speed of their rank when they were counted. Tokens of a
	// rank without a known speed add nothing.
	saved float64
	last  time.Time

	mu    sync.Mutex
	ranks map[*worker.Rank]rankCounts // as of last; guarded by mu
}

type rankCounts struct {
	cached, requests uint64
	rate             history.Value // requests a second, since the reading before; NaN: not known
}

// counts is called by the recorder's goroutine only.
func (t *traffic) counts() history.Counts {
	c, workers := t.requests.Metrics().Sums(), t.registry.Snapshot()
	t.read(workers.Ranks, time.Now())
	c.SavedSeconds = t.saved
	c.InFlight, c.Workers = t.requests.InFlight(), int64(len(workers.Workers))
	for _, w := range workers.Workers {
		if w.State() == worker.Ready {
			c.ReadyOnes++
		}
	}
	if gate := t.requests.Queue(); gate != nil {
		c.Waiting = int64(gate.Stats().Waiting)
	}
	return c
}

func (t *traffic) read(ranks []*worker.Rank, now time.Time) {
	seen := make(map[*worker.Rank]rankCounts, len(ranks))
	for _, r := range ranks {
		before, known := t.ranks[r]
		c := rankCounts{cached: r.Count.CachedTokens.Load(), requests: r.Count.Requests.Load(), rate: history.Value(math.NaN())}
		if speed := r.Load.View(now).Rate; speed > 0 {
			t.saved += float64(c.cached-before.cached) / speed
		}
		if took := now.Sub(t.last).Seconds(); known && took > 0 {
			c.rate = history.Value(float64(c.requests-before.requests) / took)
		}
		seen[r] = c
	}
	t.last = now
	t.mu.Lock()
	t.ranks = seen
	t.mu.Unlock()
}

// rate returns a rank's requests a second of late; NaN: not known yet.
func (t *traffic) rate(r *worker.Rank) history.Value {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, known := t.ranks[r]; known {
		return c.rate
	}
	return history.Value(math.NaN())
}

// Run keeps the history of GET /history until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.status.history.Run(ctx) }
