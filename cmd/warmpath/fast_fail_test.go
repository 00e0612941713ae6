package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// One of four simulated workers fails faster than the others compute. Round robin would fail a quarter of the requests, and a
// router that takes idle for good nearly all. Here none fails: each failure is tried elsewhere, until the worker is avoided.
func TestFastFailingWorkerDrawsNothing(t *testing.T) {
	all := asks(t, failQuestions, 16)
	for _, f := range []sim.Fault{
		{Kind: "error", Status: 400},
		{Kind: "error", Status: 401},
		{Kind: "error", Status: 429},
		{Kind: "error", Status: 500},
		{Kind: "error-event"},
		{Kind: "empty"},
		{Kind: "error-json"},
		{Kind: "error-event", Every: 3},
	} {
		t.Run(fmt.Sprintf("%s %d every %d", f.Kind, f.Status, f.Every), func(t *testing.T) {
			c := startPairs(t, clusterSize{workers: 4}, pairWorker(), router.Config{})
			f.Count = 1 << 30
			require.NoError(t, c.sims[0].Faults().Apply(f))
			for c.opened() == 0 {
				assert.Zero(t, c.load(t, all, 8), "failed requests")
			}
			assert.Zero(t, c.load(t, all, 8), "failed requests, while it is avoided")
			c.settled(t)
		})
	}
}

// TestLateFailuresOpenTheBreaker: nothing can be sent again of an answer that has begun. A worker that cuts each third of them
// is avoided after the fifth that counts. Prompts stay with the worker that has their prefix: that another one answers them well
// is not to be waited for. The few without another worker's good answer to the same client in between may be the client's fault.
func TestLateFailuresOpenTheBreaker(t *testing.T) {
	all, rng := asks(t, failQuestions, 16), rand.New(rand.NewPCG(1, 2))
	c := startPairs(t, clusterSize{workers: 4}, pairWorker(), router.Config{})
	require.NoError(t, c.sims[0].Faults().Apply(sim.Fault{Kind: "error-event-late", Every: 3, Count: 1 << 30}))
	failed := 0
	for i := 0; c.opened() == 0; i++ {
		require.Less(t, i, 400, "its breaker does not open; %d failed", failed)
		if _, err := c.send(t.Context(), &all[rng.IntN(len(all))], true); err != nil {
			failed++
		}
		testkit.AwaitThat(t, func() bool { return busy(c.simulation) == "" }, func() string { return busy(c.simulation) })
	}
	assert.GreaterOrEqual(t, failed, 5)
	assert.Less(t, failed, 5+8)
	c.settled(t)
}

// opened is how often the first worker's breaker has opened.
func (c *pairCluster) opened() (n uint64) {
	for _, w := range c.router.Status().Workers {
		if w.URL == c.sims[0].URL() {
			n += w.Breaker.Opened
		}
	}
	return n
}

// load sends all questions as streams, from so many clients, and returns how many failed.
func (c *pairCluster) load(t *testing.T, all []question, clients int) int64 {
	t.Helper()
	var bad, next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				if _, err := c.send(t.Context(), &all[i], true); err != nil {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return bad.Load()
}
