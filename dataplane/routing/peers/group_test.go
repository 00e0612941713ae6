package peers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

var quiet = slog.New(slog.DiscardHandler)

// router is a router as far as others see it.
type router struct {
	*peers.Group
	registry *worker.Registry
	stop     func()
	book     book
	told     uint64 // prompts
}

func (r *router) rank(i int) *worker.Rank { return r.registry.Snapshot().Ranks[i] }

func (r *router) see(i int) worker.LoadView { return r.rank(i).Load.View(time.Now()) }

// join starts a router that has so many workers.
func join(t *testing.T, b *bus, name string, workers int) *router {
	t.Helper()
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network here") }
	r := &router{registry: worker.NewRegistry(worker.Config{Dial: refuse, Interval: time.Hour, Log: quiet}, nil)}
	for i := range workers {
		_, err := r.registry.Add(fmt.Sprintf("http://w%d:80", i))
		require.NoError(t, err)
	}
	r.Group = peers.New(peers.Config{ID: name, Bus: member{b, name}, Registry: r.registry, Predictions: &r.book, Log: quiet})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() { _ = r.registry.Run(ctx) })
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	return r
}

// cluster is n routers with the same workers, that know each other.
func cluster(t *testing.T, b *bus, n, workers int) []*router {
	t.Helper()
	routers := make([]*router, n)
	for i := range routers {
		routers[i] = join(t, b, fmt.Sprintf("router-%d", n-i), workers)
	}
	time.Sleep(time.Second)
	return routers
}

func stopAll(routers []*router) {
	for _, r := range routers {
		r.stop()
	}
	time.Sleep(30 * time.Second) // messages on their way, and probes
}

func TestLoadIsShared(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(time.Millisecond)
		routers := cluster(t, b, 3, 4)
		defer stopAll(routers)
		one, two := routers[0].rank(2).Load.Begin(5000), routers[1].rank(2).Load.Begin(700)
		leg := routers[2].rank(3).Load.BeginLeg(900, worker.Work{Prompt: 900})
		routers[0].Sending() // as a dispatch does
		routers[1].Sending()
		routers[2].Sending()
		time.Sleep(20 * time.Millisecond)
		for i, r := range routers {
			v, w := r.see(2), r.see(3)
			require.Equal(t, []int64{2, 2, 5700, 5700}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used}, "router %d", i)
			require.Equal(t, []int64{1, 1, 0, 900}, []int64{w.InFlight, w.Waiting, w.Pending, w.Used}, "router %d", i)
		}
		one.FirstByte()
		two.End()
		leg.End()
		time.Sleep(20 * time.Millisecond)
		for i, r := range routers {
			v := r.see(2)
			require.Equal(t, []int64{1, 0, 0, 5000}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used}, "router %d", i)
			require.Zero(t, r.see(3).InFlight)
		}
		one.End()
		time.Sleep(time.Second)
		before := b.count()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 3*20, b.count()-before, 6, "who has nothing to say beats twice a second")
	})
}

// TestLossHeals: on a network that loses, delays and reorders at random, everybody knows
// everything soon after it is well again.
func TestLossHeals(t *testing.T) {
	for seed := range uint64(5) {
		bubbletest.Test(t, func(t *testing.T) {
			b := newBus(0)
			b.delay = func(rng *rand.Rand) time.Duration {
				return time.Duration(rng.ExpFloat64() * float64(5*time.Millisecond))
			}
			routers := cluster(t, b, 4, 3)
			defer stopAll(routers)
			b.with(func() { b.loss, b.rng = 0.4, rand.New(rand.NewPCG(seed, 5)) })
			rng := rand.New(rand.NewPCG(seed, 6))
			var leases []worker.Lease
			for range 2000 {
				if r := routers[rng.IntN(len(routers))]; rng.IntN(2) == 0 || len(leases) == 0 {
					leases = append(leases, r.rank(rng.IntN(3)).Load.Begin(rng.IntN(1000)))
					r.Sending()
				} else {
					i := rng.IntN(len(leases))
					leases[i].End()
					leases = append(leases[:i], leases[i+1:]...)
				}
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			}
			require.Positive(t, routers[0].Status().Lost)
			b.with(func() { b.loss = 0 })
			time.Sleep(1200 * time.Millisecond)
			for k := range 3 {
				want := int64(0)
				for _, r := range routers {
					want += r.rank(k).Load.InFlight()
				}
				for i, r := range routers {
					require.Equal(t, want, r.rank(k).Load.InFlight()+r.rank(k).Load.PeersInFlight(), "seed %d: worker %d as router %d sees it", seed, k, i)
				}
			}
		})
	}
}

func TestRoutersThatAreGone(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(time.Millisecond)
		routers := cluster(t, b, 3, 1)
		defer stopAll(routers)
		for _, r := range routers {
			_ = r.rank(0).Load.Begin(1000)
			r.Sending()
		}
		time.Sleep(50 * time.Millisecond)
		require.EqualValues(t, 3, routers[2].see(0).InFlight)
		require.Len(t, routers[2].Status().Peers, 2)

		b.with(func() { b.deaf["router-3"] = true }) // the first one: dead, without a word
		time.Sleep(2600 * time.Millisecond)
		require.EqualValues(t, 2, routers[2].see(0).InFlight, "its load is gone")
		require.EqualValues(t, 1, routers[2].Status().Forgotten)
		routers[1].stop() // with a word
		time.Sleep(5 * time.Millisecond)
		require.EqualValues(t, 1, routers[2].see(0).InFlight)
		require.False(t, routers[2].Sending(), "alone")

		b.with(func() { b.deaf["router-3"] = false }) // it was only cut off
		time.Sleep(600 * time.Millisecond)
		require.EqualValues(t, 2, routers[2].see(0).InFlight)
		require.True(t, routers[2].Sending())
	})
}

func TestWorkersComeAndGo(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(time.Millisecond)
		routers := cluster(t, b, 2, 2)
		defer stopAll(routers)
		_ = routers[0].rank(1).Load.Begin(1000)
		routers[0].Sending()
		time.Sleep(50 * time.Millisecond)
		old := routers[1].rank(1)
		require.EqualValues(t, 1, old.Load.View(time.Now()).InFlight)
		require.NoError(t, routers[1].registry.Remove("http://w1:80"))
		time.Sleep(time.Second)
		require.Zero(t, old.Load.View(time.Now()).InFlight, "of the removed rank")
		_, err := routers[1].registry.Add("http://w1:80")
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NotSame(t, old, routers[1].rank(1))
		require.EqualValues(t, 1, routers[1].see(1).InFlight)
	})
}

// TestBusIsDown: each is alone soon, and together again when it is back.
func TestBusIsDown(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(time.Millisecond)
		b.down = true
		routers := cluster(t, b, 2, 1)
		defer stopAll(routers)
		require.False(t, routers[1].Sending())
		b.with(func() { b.down = false })
		time.Sleep(2 * time.Second)
		require.True(t, routers[1].Sending())
		b.with(func() { b.down = true })
		time.Sleep(3 * time.Second)
		require.Empty(t, routers[1].Status().Peers)
		b.with(func() { b.down = false })
		time.Sleep(time.Second)
		require.True(t, routers[1].Sending())
	})
}
