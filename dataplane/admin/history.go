package admin

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// traffic reads the counts that the history is made of.
type traffic struct {
	requests *request.Handler
	registry *worker.Registry
	saved    savings
}

// counts is called by the recorder's goroutine only.
func (t *traffic) counts() history.Counts {
	c, workers := t.requests.Metrics().Sums(), t.registry.Snapshot()
	c.SavedSeconds = t.saved.add(workers.Ranks, time.Now())
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

// savings adds up the prefill time of cached tokens, at the speed of their rank when they were
// counted. Tokens of a rank without a known speed add nothing.
type savings struct {
	seconds float64
	cached  map[*worker.Rank]uint64 // tokens that are counted already
}

func (s *savings) add(ranks []*worker.Rank, now time.Time) float64 {
	seen := make(map[*worker.Rank]uint64, len(ranks))
	for _, r := range ranks {
		n := r.Count.CachedTokens.Load()
		if speed := r.Load.View(now).Rate; speed > 0 {
			s.seconds += float64(n-s.cached[r]) / speed
		}
		seen[r] = n
	}
	s.cached = seen
	return s.seconds
}

// Run keeps the history of GET /history until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.history.Run(ctx) }
