package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane"
)

// startRouters starts routers for simulated workers, each with a context of its own, and waits until all know each other.
func startRouters(t *testing.T, n, workers int) (r *routers, stop []func()) {
	t.Helper()
	r, err := newRouters(t.Context(), n, workers, sim.Config{TimeScale: 50, Log: quietLogger()},
		dataplane.Config{Listen: "127.0.0.1:0", Policy: "kv", Version: version, Log: quietLogger()})
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
	require.Eventually(t, r.ready, 30*time.Second, 10*time.Millisecond, "routers do not know all workers and each other")
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
	r, stop := startRouters(t, 3, 2)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	urls := strings.Split(r.urls(), ",")
	chosen := func(i int) uint64 { return r.all[i].Status().Replicas.Chosen }
	require.Eventually(t, func() bool {
		burst(t, client, urls, 4)
		return chosen(1) > 0 && chosen(2) > 0
	}, 30*time.Second, time.Millisecond, "nobody is chosen for")
	first := r.all[0].Status().Replicas
	require.Equal(t, first.ID, first.Chief)
	require.Positive(t, first.Judged)
	require.Eventually(t, func() bool {
		for _, router := range r.all {
			for _, w := range router.Status().Workers {
				if w.Load.InFlight != 0 {
					return false
				}
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond, "load stays")
	require.EqualValues(t, 2, metric(t, urls[1], "warmpath_replica_peers"))
	require.Positive(t, metric(t, urls[0], `warmpath_replica_choices_total{result="judged"}`))

	stop[0]()
	require.Eventually(t, func() bool {
		st := r.all[2].Status().Replicas
		return len(st.Peers) == 1 && st.Chief == r.all[1].Status().Replicas.ID
	}, 30*time.Second, 10*time.Millisecond, "the next one does not choose")
	before := chosen(2)
	require.Eventually(t, func() bool {
		burst(t, client, urls[1:], 4)
		return chosen(2) > before
	}, 30*time.Second, time.Millisecond, "nobody is chosen for any more")

	require.NoError(t, r.nats[0].Close()) // NATS is inside
	burst(t, client, urls[1:], 4)
	require.Eventually(t, func() bool {
		return len(r.all[1].Status().Replicas.Peers)+len(r.all[2].Status().Replicas.Peers) == 0
	}, 30*time.Second, 10*time.Millisecond, "who cannot be heard is remembered")
	burst(t, client, urls[1:], 4)
}
