package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// readers ask questions about documents, each one after the other's answer, and return the share of
// the tokens that was cached. A few documents are asked for most.
func (c *cluster) readers(t *testing.T, seed uint64, docs, length, clients, questions int) (hits float64) {
	t.Helper()
	const block = 75 // divides all lengths
	all := make([]*request, clients*questions)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			time.Sleep(time.Duration(client) * 1_234_567) // no two at one instant: their order would be chance
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			for q := range questions {
				doc, question := uint64(rng.ExpFloat64()*float64(docs)/4)%uint64(docs), rng.Uint64()
				from := trace.Request{Input: length * 9 / 8, Output: 20 + rng.IntN(60), Block: block}
				for at := range uint64(from.Input / block) {
					id := doc<<32 | at
					if int(at) >= length/block {
						id = question + at
					}
					from.IDs = append(from.IDs, id)
				}
				r := c.send(t, client*questions+q, &from)
				c.await(r)
				all[client*questions+q] = r.request
			}
		})
	}
	wg.Wait()
	cached, prompts := 0, 0
	for _, r := range all {
		cached, prompts = cached+r.current().cached, prompts+len(r.prompt)
	}
	return float64(cached) / float64(prompts)
}

// lie has ranks lie, the first rank with the first fault and so on.
func (c *cluster) lie(t *testing.T, lies ...Fault) {
	t.Helper()
	for i, f := range lies {
		require.NoError(t, c.ranks[fmt.Sprintf("w%d", i)].faults.Apply(f))
	}
}

// aside names the fields of each rank's reports that the router does not believe.
func (c *cluster) aside() (all [][]string) {
	for i := range len(c.ranks) {
		for _, r := range c.registry.Snapshot().Ranks {
			if r.Worker.URL == fmt.Sprintf("http://w%d", i) {
				var fields []string
				for _, s := range r.Load.SetAside() {
					fields = append(fields, s.Field)
				}
				all = append(all, fields)
			}
		}
	}
	return all
}

// inCluster runs a test of a router in front of n ranks.
func inCluster(t *testing.T, n int, cfg Config, test func(t *testing.T, c *cluster)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.Sleep(time.Minute) // idle connections of probes
		defer cancel()
		test(t, newCluster(ctx, t, policy.KV{Options: policy.Defaults}, slices.Repeat([]Config{cfg}, n), false, 1))
	})
}

// TestReportsThatLie: workers whose load reports are wrong are found out, field by field, and
// believed again when they are right. Meanwhile prompts find as much in caches as among honest
// workers.
func TestReportsThatLie(t *testing.T) {
	inCluster(t, 4, Config{CachePages: 6000, MaxRunning: 16}, func(t *testing.T, c *cluster) {
		ask := func(seed uint64) float64 { return c.readers(t, seed, 60, 4800, 16, 8) }
		none := [][]string{nil, nil, nil, nil}
		for seed := range uint64(3) { // as long as the lies take to be found, and more
			ask(seed)
		}
		honest := ask(10)
		require.Equal(t, none, c.aside())
		synctest.Wait()
		require.NotContains(t, c.said.String(), "set aside")

		used, busy := Fault{Kind: "cached-as-used"}, Fault{Kind: "busy-runs-behind", Factor: 36}
		c.lie(t, used, used, busy, busy)
		found := [][]string{{worker.AsideUsed}, {worker.AsideUsed}, {worker.AsideSpeed}, {worker.AsideSpeed}}
		var rounds uint64
		for rounds = 0; rounds < 20 && !slices.EqualFunc(c.aside(), found, slices.Equal); rounds++ {
			ask(3 + rounds)
		}
		require.Equal(t, found, c.aside())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 4, strings.Count(c.said.String(), "set aside"), "each is told of once")
		share := ask(11)
		t.Logf("found after %d rounds; %.3f of the tokens were cached, %.3f among honest workers", rounds, share, honest)
		require.Greater(t, share, 0.85*honest)
		wrong := func() (id string, rate float64) {
			for _, r := range c.registry.Snapshot().Ranks {
				if rate := r.Load.View(time.Now()).Rate; rate < 8_000 || rate > 24_000 { // of 16,000
					return r.ID(), rate
				}
			}
			return "", 0
		}
		id, rate := wrong()
		for rounds = 0; rounds < 5 && id != ""; rounds++ { // a speed follows the prompts since the lie was found
			ask(12 + rounds)
			id, rate = wrong()
		}
		require.Empty(t, id, "%.0f prompt tokens a second", rate)

		c.lie(t, slices.Repeat([]Fault{{Kind: "none"}}, 4)...)
		for rounds = 0; rounds < 20 && !slices.EqualFunc(c.aside(), none, slices.Equal); rounds++ {
			c.readers(t, 100+rounds, 200, 4800, 8, 5)
		}
		require.Equal(t, none, c.aside())
		t.Logf("believed again after %d rounds", rounds)
	})
}

// TestPoolsThatLie: a worker that reports a KV pool three times as large as it is evicts while there
// is room, and one that reports a third holds more than that. Both are found out by their events,
// and believed again when they tell the truth.
func TestPoolsThatLie(t *testing.T) {
	const pool = 3000 * 16
	inCluster(t, 3, Config{CachePages: pool / 16, MaxRunning: 16}, func(t *testing.T, c *cluster) {
		seed := uint64(0)
		until := func(want [][]string) {
			t.Helper()
			for range 40 {
				if seed++; slices.EqualFunc(c.aside(), want, slices.Equal) {
					return
				}
				c.readers(t, seed, 60, 3000, 6, 4)
			}
			require.Equal(t, want, c.aside())
		}
		c.readers(t, 1000, 60, 3000, 6, 20)
		require.Equal(t, [][]string{nil, nil, nil}, c.aside())
		c.lie(t, Fault{Kind: "wrong-pool", Factor: 3}, Fault{Kind: "wrong-pool", Factor: 0.33})
		until([][]string{{worker.AsidePool}, {worker.AsidePool}, nil})
		for _, r := range c.registry.Snapshot().Ranks {
			require.InDelta(t, pool, r.Load.View(time.Now()).Pool, 0.3*pool, r.ID())
		}
		t.Logf("found after %d rounds", seed)
		c.lie(t, slices.Repeat([]Fault{{Kind: "none"}}, 3)...)
		until([][]string{nil, nil, nil})
		t.Logf("believed again after %d rounds", seed)
	})
}
