//go:build soak

package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// documents asks questions about documents, several clients at a time, and returns the answers in
// no order.
func documents(t *testing.T, url string, seed uint64, docs, length, clients, questions int) (all []asked) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for range questions {
				doc := uint64(rng.ExpFloat64() * float64(docs) / 4)
				ids := slices.Concat(randomIDs(rand.New(rand.NewPCG(7, doc%uint64(docs))), length), randomIDs(rng, length/8))
				a := ask(t.Context(), client, url, ids, 20+rng.IntN(60))
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, a := range all {
		require.NoError(t, a.err)
		require.Equal(t, http.StatusOK, a.status)
	}
	return all
}

// hits is the share of prompt tokens that were cached, and the mean time to the first token.
func hits(all []asked) (share float64, ttft time.Duration) {
	prompt, cached := 0, 0
	for _, a := range all {
		prompt, cached, ttft = prompt+a.prompt, cached+a.cached, ttft+a.ttft
	}
	return float64(cached) / float64(prompt), ttft / time.Duration(len(all))
}

// TestReportsThatLie: workers whose load reports are wrong are found out, field by field, and
// believed again when they are right. Meanwhile prompts find as much in caches as among honest
// workers.
func TestReportsThatLie(t *testing.T) {
	var said lines
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Version: version, Log: slog.New(slog.NewTextHandler(&said, nil))}
	unhurried(&cfg)
	aside := func(router *router.Router, field string) (n int) {
		for _, w := range router.Status().Workers {
			if slices.ContainsFunc(w.Load.SetAside, func(a admin.SetAsideField) bool { return a.Field == field }) {
				n++
			}
		}
		return n
	}
	run := func(lies ...sim.Fault) (router *router.Router, workers []*sim.Worker, share float64) {
		r, _ := launch(t, 1, 4, sim.Config{TimeScale: 4, CachePages: 6000, MaxRunning: 16}, cfg)
		for i, lie := range lies {
			require.NoError(t, r.sims[i].Faults().Apply(lie))
		}
		router, url, seed := r.all[0], "http://"+r.all[0].Addr(), uint64(0)
		testkit.AwaitThat(t, func() bool {
			seed++
			_ = documents(t, url, seed, 60, 4800, 16, 4)
			found := aside(router, worker.AsideUsed) + aside(router, worker.AsideSpeed)
			return seed > 1 && found >= len(lies)
		}, func() string { return fmt.Sprintf("not all lies are found: %+v", router.Status().Workers) })
		share, ttft := hits(documents(t, url, 1000, 60, 4800, 16, 10))
		t.Logf("%d lies: %.3f of the prompt tokens were cached; mean time to first token %v", len(lies), share, ttft)
		return router, r.sims, share
	}
	router, _, honest := run()
	require.Zero(t, aside(router, worker.AsideUsed)+aside(router, worker.AsideSpeed))
	require.Zero(t, said.count("set aside"))

	used, busy := sim.Fault{Kind: "cached-as-used"}, sim.Fault{Kind: "busy-runs-behind", Factor: 36}
	router, sims, share := run(used, used, busy, busy)
	require.Greater(t, share, 0.78*honest)
	state := func() string {
		var out strings.Builder
		for _, w := range router.Status().Workers {
			fmt.Fprintf(&out, "%+v\n", w.Load)
		}
		return out.String()
	}
	testkit.AwaitThat(t, func() bool { return aside(router, worker.AsideUsed) == 2 && aside(router, worker.AsideSpeed) == 2 }, state)
	testkit.AwaitThat(t, func() bool { return said.count("set aside") == 4 }, state)
	for _, w := range router.Status().Workers {
		require.Less(t, w.Load.PrefillPerSecond, 2.5*4*16_000)
	}

	for _, w := range sims {
		require.NoError(t, w.Faults().Apply(sim.Fault{Kind: "none"}))
	}
	testkit.AwaitThat(t, func() bool {
		_ = documents(t, "http://"+router.Addr(), 3, 200, 4800, 8, 4)
		return aside(router, worker.AsideUsed)+aside(router, worker.AsideSpeed) == 0
	}, state)
}

// TestPoolsThatLie: a worker that reports a KV pool three times as large as it is evicts while there
// is room, and one that reports a third holds more than that. Both are found out by their events,
// and believed again when they tell the truth.
func TestPoolsThatLie(t *testing.T) {
	var said lines
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Version: version, Log: slog.New(slog.NewTextHandler(&said, nil))}
	unhurried(&cfg)
	const pool = 3000 * 16
	r, _ := launch(t, 1, 3, sim.Config{TimeScale: 8, CachePages: pool / 16, MaxRunning: 16}, cfg)
	router, url, seed := r.all[0], "http://"+r.all[0].Addr(), uint64(0)
	pools := func() (all []int64, aside int) {
		for _, w := range router.Status().Workers {
			all = append(all, w.Load.PoolTokens)
			if slices.ContainsFunc(w.Load.SetAside, func(a admin.SetAsideField) bool { return a.Field == worker.AsidePool }) {
				aside++
			}
		}
		return all, aside
	}
	await := func(want int) {
		testkit.AwaitThat(t, func() bool {
			seed++
			_ = documents(t, url, seed, 60, 3000, 6, 4)
			_, aside := pools()
			return aside == want
		}, func() string { return fmt.Sprintf("not %d pools are set aside: %+v", want, router.Status().Workers) })
	}
	_ = documents(t, url, 1000, 60, 3000, 6, 20)
	all, aside := pools()
	require.Zero(t, aside, "honest workers: %v", all)
	require.NoError(t, r.sims[0].Faults().Apply(sim.Fault{Kind: "wrong-pool", Factor: 3}))
	require.NoError(t, r.sims[1].Faults().Apply(sim.Fault{Kind: "wrong-pool", Factor: 0.33}))
	await(2)
	all, _ = pools()
	t.Logf("pools by events: %v", all)
	for _, tokens := range all {
		require.InDelta(t, pool, tokens, 0.3*pool)
	}
	require.Equal(t, 2, said.count("field=pool_tokens"))
	for _, w := range r.sims {
		require.NoError(t, w.Faults().Apply(sim.Fault{Kind: "none"}))
	}
	await(0)
}

// lines is a log that can be counted.
type lines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}
