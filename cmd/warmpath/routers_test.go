package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// startRouters starts routers for simulated workers, each with a context of its own, and waits until all know each other.
func startRouters(t *testing.T, n, workers int) (r *routers, stop []func()) {
	t.Helper()
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Version: version, Log: slog.New(slog.DiscardHandler)}
	unhurried(&cfg)
	return launch(t, n, workers, sim.Config{TimeScale: 50, Log: cfg.Log}, cfg)
}

// launch runs routers for simulated workers until the test ends, or until each one's stop.
func launch(t *testing.T, n, workers int, worker sim.Config, cfg router.Config) (r *routers, stop []func()) {
	t.Helper()
	r, err := newRouters(t.Context(), n, workers, worker, cfg)
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	var sims, all sync.WaitGroup
	for _, w := range r.sims {
		sims.Go(func() { _ = w.Run(ctx) })
	}
	for _, router := range r.all {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		all.Go(func() {
			defer close(done)
			_ = router.Run(ctx)
		})
		stop = append(stop, sync.OnceFunc(func() { cancel(); <-done }))
	}
	t.Cleanup(func() {
		for _, f := range stop {
			f()
		}
		all.Wait()
		end()
		sims.Wait()
		r.close()
	})
	testkit.AwaitThat(t, r.ready, func() string { return "routers do not know all workers and each other" })
	return r, stop
}

// burst sends requests to all of the routers at one instant, and none may fail.
func burst(t *testing.T, client *http.Client, urls []string, each int) {
	t.Helper()
	answers := make([]asked, each*len(urls))
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			ids := randomIDs(rand.New(rand.NewPCG(uint64(i), 1)), 400)
			answers[i] = ask(t.Context(), client, urls[i%len(urls)], ids, 4)
		})
	}
	wg.Wait()
	for _, a := range answers {
		require.NoError(t, a.err)
		require.Equal(t, http.StatusOK, a.status)
	}
}

// TestRoutersKnowEachOther: of three routers each knows the requests of the others; one ends, and NATS ends, and each is alone. No
// request fails meanwhile, and none leaves load behind.
func TestRoutersKnowEachOther(t *testing.T) {
	t.Parallel()
	r, stop := startRouters(t, 3, 2)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	urls := strings.Split(r.urls(), ",")
	burst(t, client, urls, 4)
	soon := func(what string, ok func() bool) {
		t.Helper()
		testkit.AwaitThat(t, ok, func() string { return what })
	}
	// shown is the requests at the workers as a router sees them.
	shown := func(i int) (n int64) {
		for _, w := range r.all[i].Status().Workers {
			n += w.Load.InFlight
		}
		return n
	}
	nothing := func() bool { return shown(0)+shown(1)+shown(2) == 0 }
	soon("load stays", nothing)
	ctx, abandon := context.WithCancel(t.Context())
	defer abandon()
	var asking sync.WaitGroup
	asking.Go(func() { ask(ctx, client, urls[0], randomIDs(rand.New(rand.NewPCG(1, 2)), 400), 100_000) })
	soon("a request is not told", func() bool { return shown(1) == 1 && shown(2) == 1 })
	abandon()
	asking.Wait()
	soon("load stays", nothing)
	soon("not all are counted", func() bool {
		return metric(t, urls[1], "warmpath_replica_peers") == 2 && metric(t, urls[1], `warmpath_cluster_members{kind="router"}`) == 3 &&
			metric(t, urls[1], "warmpath_cluster_up") == 1 && metric(t, urls[1], `warmpath_replica_messages_total{result="received"}`) > 0
	})

	stop[0]()
	soon("one that has ended is remembered", func() bool { return len(r.all[2].Status().Replicas.Peers) == 1 })
	burst(t, client, urls[1:], 4)

	require.NoError(t, r.nats[0].Close()) // NATS is inside
	burst(t, client, urls[1:], 4)
	soon("who cannot be heard is remembered", func() bool {
		return len(r.all[1].Status().Replicas.Peers)+len(r.all[2].Status().Replicas.Peers) == 0
	})
	soon("NATS is gone and nobody says so", func() bool {
		return metric(t, urls[1], "warmpath_cluster_up") == 0 && r.all[1].Status().Cluster.Reason != ""
	})
	burst(t, client, urls[1:], 4)
}
