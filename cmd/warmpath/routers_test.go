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
	awaitThat(t, r.ready, func() string { return "routers do not know all workers and each other" })
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

// TestRoutersChooseAsOne: of three routers one chooses for all; it ends, and the next one does; NATS ends, and each is alone. No request
// fails meanwhile, and none leaves load behind.
func TestRoutersChooseAsOne(t *testing.T) {
	t.Parallel()
	r, stop := startRouters(t, 3, 2)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	urls := strings.Split(r.urls(), ",")
	chosen := func(i int) uint64 { return r.all[i].Status().Replicas.Chosen }
	burst(t, client, urls, 4)
	for i, url := range urls { // who does not choose for all says so
		out, err := warmpath(t, "", "explain", "--router", url, "--ids", "1 2 3")
		require.NoError(t, err)
		st := r.all[i].Status().Replicas
		require.Equal(t, st.Leader != st.ID, strings.Contains(out, "Router "+st.Leader+" chooses for all"), out)
	}
	soon := func(what string, ok func() bool) {
		t.Helper()
		awaitThat(t, ok, func() string { return what })
	}
	soon("nobody is chosen for", func() bool {
		burst(t, client, urls[1:2], 1) // one after the other: all at once, answers may be late on a slow machine
		burst(t, client, urls[2:3], 1)
		return chosen(1) > 0 && chosen(2) > 0
	})
	soon("the first one does not say so", func() bool {
		first := r.all[0].Status().Replicas
		return first.ID == first.Leader && first.Judged > 0 && metric(t, urls[0], `warmpath_replica_choices_total{result="judged"}`) > 0
	})
	soon("load stays", func() bool {
		for _, router := range r.all {
			for _, w := range router.Status().Workers {
				if w.Load.InFlight != 0 {
					return false
				}
			}
		}
		return true
	})
	soon("not all are counted", func() bool {
		return metric(t, urls[1], "warmpath_replica_peers") == 2 && metric(t, urls[1], `warmpath_cluster_members{kind="router"}`) == 3 &&
			metric(t, urls[1], "warmpath_cluster_up") == 1
	})

	stop[0]()
	soon("the next one does not choose", func() bool {
		st := r.all[2].Status().Replicas
		return len(st.Peers) == 1 && st.Leader == r.all[1].Status().Replicas.ID
	})
	before := chosen(2)
	burst(t, client, urls[1:], 4)
	soon("nobody is chosen for any more", func() bool {
		burst(t, client, urls[2:3], 1)
		return chosen(2) > before
	})

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
