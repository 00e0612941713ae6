package peers_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestClaimsWithoutReports: a router that claims any load at a worker which reports none does not
// take it out of the choice of the others: both of two send it a part of a steady load of 120 requests at six
// workers, and each the third of a quiet worker's part at least.
func TestClaimsWithoutReports(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		honest := []*realRouter{joinReal(t, b, "router-0", 1), joinReal(t, b, "router-1", 2)}
		rogue := joinReal(t, b, "router-2", 3)
		defer func() {
			for _, r := range append(honest, rogue) {
				r.stop()
			}
			time.Sleep(time.Minute) // messages on their way, and the cleaners of connections
		}()
		claimed := rogue.registry.Snapshot().Ranks[0]
		for range 5000 {
			_ = claimed.Load.BeginWork(time.Now(), worker.Work{Uncached: 8000, Prompt: 8000})
		}
		rogue.group.Sending()
		time.Sleep(time.Second)
		require.Positive(t, honest[0].registry.Snapshot().Ranks[0].Load.PeersInFlight())

		counts := [2]map[string]int{{}, {}}
		var mu sync.Mutex
		var wg sync.WaitGroup
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 1200 {
			ids := make([]uint32, 500)
			for j := range ids {
				ids[j] = rng.Uint32()
			}
			wg.Go(func() {
				id := honest[i%2].serve(t, ids)
				mu.Lock()
				defer mu.Unlock()
				counts[i%2][id]++
			})
			time.Sleep(4 * time.Millisecond) // 500 ms for each: 120 at once
		}
		wg.Wait()
		for i := range honest {
			require.Greater(t, counts[i][claimed.ID()], 600/6/3, "router %d: %v", i, counts[i])
		}
	})
}
