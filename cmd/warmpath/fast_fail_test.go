package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
)

// One of four simulated workers fails faster than the others compute, in a closed loop of 8 clients and in an open one.
// Round robin would fail a quarter of the requests, and a router that takes idle for good nearly all.
func TestFastFailingWorkerDrawsNothing(t *testing.T) {
	const n = 160
	all := asks(t, n, 16)
	for _, f := range []sim.Fault{
		{Kind: "error", Status: 400},
		{Kind: "error", Status: 401},
		{Kind: "error", Status: 429},
		{Kind: "error", Status: 500},
		{Kind: "error-event"},
		{Kind: "empty"},
		{Kind: "error-json"},
		{Kind: "error-event", Every: 3},
		{Kind: "error-event-late", Every: 3},
	} {
		t.Run(fmt.Sprintf("%s %d every %d", f.Kind, f.Status, f.Every), func(t *testing.T) {
			c := startPairs(t, clusterSize{workers: 4}, pairWorker(), router.Config{})
			f.Count = 1 << 30
			require.NoError(t, c.sims[0].Faults().Apply(f))
			most := int64(12) // far below the 40 of round robin
			closed := c.load(t, all, 8)
			open := c.load(t, all, 0)
			t.Logf("failed: %d of %d in a closed loop, %d in an open one", closed, n, open)
			assert.LessOrEqual(t, closed, most)
			assert.LessOrEqual(t, open, most)
			c.settled(t)
		})
	}
}

// load sends all questions as streams, from so many clients or, with 0, at a steady pace, and returns how many failed.
func (c *pairCluster) load(t *testing.T, all []question, clients int) int64 {
	t.Helper()
	var bad, next atomic.Int64
	var wg sync.WaitGroup
	one := func(i int) {
		if _, err := c.send(t.Context(), &all[i], true); err != nil {
			bad.Add(1)
		}
	}
	if clients == 0 {
		for i := range all {
			wg.Go(func() { one(i) })
			time.Sleep(time.Millisecond) // the pace of an open loop
		}
	}
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				one(int(i))
			}
		})
	}
	wg.Wait()
	return bad.Load()
}
