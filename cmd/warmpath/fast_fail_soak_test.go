//go:build soak

package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
)

// TestFastFailingWorkerInAnOpenLoop: requests come at a steady pace, whoever is answered. On a quiet machine few fail.
func TestFastFailingWorkerInAnOpenLoop(t *testing.T) {
	const n = 160
	all := asks(t, n, 16)
	for _, kind := range []string{"error", "error-event", "empty", "error-json"} {
		t.Run(kind, func(t *testing.T) {
			c := startPairs(t, clusterSize{workers: 4}, pairWorker(), router.Config{})
			require.NoError(t, c.sims[0].Faults().Apply(sim.Fault{Kind: kind, Count: 1 << 30}))
			var bad atomic.Int64
			var wg sync.WaitGroup
			for i := range all {
				wg.Go(func() {
					if _, err := c.send(t.Context(), &all[i], true); err != nil {
						bad.Add(1)
					}
				})
				time.Sleep(time.Millisecond)
			}
			wg.Wait()
			assert.LessOrEqual(t, bad.Load(), int64(12), "of %d; round robin would fail 40", n)
			c.settled(t)
		})
	}
}
