package peers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/fleet/worker/workertest"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// realRouter is a router up to the choice, with an index of its own.
type realRouter struct {
	*routing.Router
	registry *worker.Registry
	group    *peers.Group // nil: it knows no other router
	stop     func()
}

// joinReal starts a router for six workers. b is nil for one that knows no other router.
func joinReal(t *testing.T, b *bus, name string, seed uint64) *realRouter {
	t.Helper()
	registry := worker.NewRegistry(worker.Config{Dial: workertest.Dial, Interval: time.Hour, LoadEvery: -1, Log: quiet}, nil)
	for i := range 6 {
		_, err := registry.Add(fmt.Sprintf("http://w%d:80", i))
		require.NoError(t, err)
	}
	view := &ingest.View{Shapes: []ingest.Shape{{Model: "m", BlockSize: 16}}}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
	r := &realRouter{registry: registry, Router: routing.New(registry, radix.New(radix.Config{Seed: seed}), func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, random)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })
	if b != nil {
		r.group = peers.New(peers.Config{ID: name, Bus: member{b, name}, Registry: registry, Predictions: r.Shared, Log: quiet})
		r.Peers = r.group
		running.Go(func() { _ = r.group.Run(ctx) })
	}
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	time.Sleep(time.Second)
	for _, w := range registry.Snapshot().Workers {
		require.Equal(t, worker.Ready, w.State())
	}
	return r
}

// serve chooses for a prompt and sends it: its first byte comes after 100 ms and its last one
// 400 ms later.
func (r *realRouter) serve(t *testing.T, ids []uint32) string {
	t.Helper()
	var s routing.Scratch
	p := routing.Prompt{Model: "m", Tokens: ids, Exact: true, DP: -1}
	d, err := r.Pick(&s, &p, nil)
	if err != nil {
		t.Errorf("cannot choose: %v", err)
		return ""
	}
	lease, flight := d.Rank.Load.Begin(d.Uncached()), r.Dispatch(&s, &p, &d)
	time.Sleep(100 * time.Millisecond)
	lease.FirstByte()
	flight.Prefilled()
	time.Sleep(400 * time.Millisecond)
	lease.End()
	r.Withdraw(flight)
	return d.Rank.ID()
}

// computing asks for new prompts, each by nine clients spread over the routers, and returns by how
// many workers each one is computed in the mean. The clients come 10 ms after each other, in which a
// router hears of another one's choice, and first to each router in turn.
func computing(t *testing.T, routers []*realRouter) float64 {
	t.Helper()
	const rounds, clients = 20, 9
	rng, sum := rand.New(rand.NewPCG(1, 2)), 0
	for round := range rounds {
		ids := make([]uint32, 3000)
		for i := range ids {
			ids[i] = rng.Uint32()
		}
		var by [clients]string
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				by[i] = routers[(round+i)%len(routers)].serve(t, ids)
			})
		}
		wg.Wait()
		workers := map[string]bool{}
		for _, name := range by {
			workers[name] = true
		}
		sum += len(workers)
		time.Sleep(time.Second)
	}
	return float64(sum) / rounds
}

// TestEqualPromptsOfSeveralRouters: of several routers no more workers compute a new prompt that
// comes to all of them before its first answer than of one router, also after one has ended.
func TestEqualPromptsOfSeveralRouters(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		var single, apart, several []*realRouter
		defer func() {
			for _, r := range slices.Concat(single, apart, several) {
				r.stop()
			}
			time.Sleep(time.Minute) // messages on their way, and the cleaners of connections
		}()
		single = append(single, joinReal(t, nil, "", 1))
		for i := range uint64(3) {
			apart = append(apart, joinReal(t, nil, "", 2+i))
			several = append(several, joinReal(t, b, fmt.Sprintf("router-%d", i), 2+i))
		}
		one, strangers, three := computing(t, single), computing(t, apart), computing(t, several)
		several[0].stop()
		time.Sleep(time.Second)
		two := computing(t, several[1:])
		t.Logf("workers: %.2f of one router, %.2f of three that know each other, %.2f of two, %.2f of strangers", one, three, two, strangers)
		require.Equal(t, one, three)
		require.Equal(t, one, two)
		require.Greater(t, strangers, one, "nothing is shown")
	})
}
