package clientkey_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

const (
	patience = time.Minute
	lookTime = 2 * time.Millisecond
)

// fragile is a bus that can be cut: then nothing is heard, and messages are lost.
type fragile struct {
	clientkey.Bus
	isCut atomic.Bool
}

func (f *fragile) PublishOwn(subject string, data []byte) error {
	if f.isCut.Load() {
		return errors.New("no NATS")
	}
	return f.Bus.PublishOwn(subject, data)
}

func (f *fragile) SubscribeOwn(subject string, hear func(string, []byte)) (func(), error) {
	return f.Bus.SubscribeOwn(subject, func(owner string, data []byte) {
		if !f.isCut.Load() {
			hear(owner, data)
		}
	})
}

// sharer is the keys of one router.
type sharer struct {
	*clientkey.Keys
	bus  *fragile
	stop func()
}

func (s *sharer) key() *clientkey.Key { return s.Find([]byte("a")) }

// joinShare starts a router with one key, "a", whose clock stands at now; zero: it goes on.
func joinShare(t *testing.T, bus clientkey.Bus, id, limits string, now time.Time) *sharer {
	t.Helper()
	s := &sharer{Keys: read(t, "a "+hashOf("a")+" "+limits), bus: &fragile{Bus: bus}}
	s.key().Known(now)
	s.key().Tokens(now)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Share(ctx, s.bus, id, slog.New(slog.DiscardHandler)) })
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

// joinCluster starts n routers in a cluster of their own, whose NATS is in the first one.
func joinCluster(t *testing.T, n int, limits string, now time.Time) []*sharer {
	t.Helper()
	var all []*sharer
	var urls []string
	for range n {
		c, err := cluster.Open(t.Context(), cluster.Config{URLs: urls, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		await(t, func() bool { return c.View().Up })
		urls = []string{c.URL()}
		all = append(all, joinShare(t, c, c.Instance(), limits, now))
	}
	awaitSize(t, all, n)
	return all
}

func await(t *testing.T, f func() bool) { t.Helper(); require.Eventually(t, f, patience, lookTime) }

func awaitSize(t *testing.T, all []*sharer, n int) {
	t.Helper()
	for _, s := range all {
		await(t, func() bool { return s.Routers() == n })
	}
}

// awaitAgreed waits until each router knows of all requests under way, and of all use at the others.
func awaitAgreed(t *testing.T, all []*sharer, inFlight int) {
	t.Helper()
	now := time.Now()
	for _, s := range all {
		await(t, func() bool {
			missing, known, untold := s.key().Known(now)
			first, _, _ := all[0].key().Known(now)
			return known == inFlight && untold == 0 && missing > first-0.5 && missing < first+0.5
		})
	}
}

// TestConcurrencyHoldsInACluster: the places of a key are those of all routers together, whichever lets its requests in.
func TestConcurrencyHoldsInACluster(t *testing.T) {
	for _, n := range []int{2, 3} {
		all := joinCluster(t, n, "concurrency=7", time.Time{})
		for name, at := range map[string]func(int) *sharer{
			"by turns": func(i int) *sharer { return all[i%n] }, "one router": func(int) *sharer { return all[n-1] },
		} {
			var inside []*clientkey.Key
			for i := range 3 * 7 {
				if key := at(i).key(); key.Begin(time.Now()) == nil {
					inside = append(inside, key)
				}
				awaitAgreed(t, all, len(inside))
			}
			assert.Len(t, inside, 7, "%d routers, %s", n, name)
			inside[0].End()
			awaitAgreed(t, all, 6)
			require.NoError(t, all[1].key().Begin(time.Now()), "the freed place is everybody's")
			all[1].key().End()
			for _, key := range inside[1:] {
				key.End()
			}
			awaitAgreed(t, all, 0)
		}
	}
}

// TestABurstAtOneRouterGetsItsLimit: a client whose requests come at one instant, all at one router of
// several, gets all of its limit, since requests beyond the router's share wait for the others to hear.
func TestABurstAtOneRouterGetsItsLimit(t *testing.T) {
	for _, limits := range []string{"concurrency=10", "requests-per-minute=10", "concurrency=10 requests-per-minute=1000 tokens-per-minute=1000000"} {
		all := joinCluster(t, 2, limits, time.Time{})
		key := all[0].key()
		var inside atomic.Int64
		var burst sync.WaitGroup
		for range 15 {
			burst.Go(func() {
				if key.Begin(time.Now()) == nil {
					inside.Add(1)
				}
			})
		}
		burst.Wait()
		assert.EqualValues(t, 10, inside.Load(), limits)
	}
}

// TestRatesHoldInACluster: so are the requests and tokens of a minute.
func TestRatesHoldInACluster(t *testing.T) {
	for _, n := range []int{2, 3} {
		now := time.Now().Add(time.Hour)
		all, let := joinCluster(t, n, "requests-per-minute=10", now), 0
		for i := range 30 {
			if key := all[i%n].key(); key.Begin(now) == nil {
				key.End()
				let++
			}
			awaitTold(t, all, now, float64(let))
		}
		assert.Equal(t, 10, let, "%d routers", n)
		late := joinAgain(t, all, "requests-per-minute=10", now)
		await(t, func() bool { missing, _, _ := late.key().Known(now); return missing > 9.5 })
		assert.Error(t, late.key().Begin(now), "a router that has just begun")

		all, let = joinCluster(t, n, "tokens-per-minute=1000", now), 0
		for i := range 30 {
			if key := all[i%n].key(); key.Take(now, 100) == nil {
				key.Answered(now, 100, 150, 50)
				let++
			}
			for _, s := range all {
				await(t, func() bool { return s.key().Tokens(now) == float64(200*let) })
			}
		}
		assert.Equal(t, 5, let, "%d routers: answers correct the estimate everywhere", n)
	}
}

// awaitTold waits until so much is missing everywhere, and everybody knows it.
func awaitTold(t *testing.T, all []*sharer, now time.Time, want float64) {
	t.Helper()
	for _, s := range all {
		await(t, func() bool { missing, _, untold := s.key().Known(now); return missing == want && untold == 0 })
	}
}

// joinAgain starts one more router.
func joinAgain(t *testing.T, all []*sharer, limits string, now time.Time) *sharer {
	t.Helper()
	c, ok := all[0].bus.Bus.(*cluster.Cluster)
	require.True(t, ok)
	late := joinShare(t, c, "late", limits, now)
	awaitSize(t, append(slices.Clone(all), late), len(all)+1)
	return late
}

// TestBurstsInACluster: clients that ask all routers at one instant get less than twice their limit, however late messages are.
func TestBurstsInACluster(t *testing.T) {
	for _, n := range []int{2, 3} {
		all := joinCluster(t, n, "concurrency=60", time.Time{})
		var let atomic.Int64
		var wg sync.WaitGroup
		for _, s := range all {
			for range 4 {
				wg.Go(func() {
					for range 500 {
						if s.key().Begin(time.Now()) == nil {
							let.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		assert.LessOrEqual(t, let.Load(), int64(60+60*(n-1)/n+n), "%d routers", n)
		awaitAgreed(t, all, int(let.Load()))
		assert.Error(t, all[0].key().Begin(time.Now()))
	}
}

// TestClusterIsCut: routers that do not hear each other keep to their shares, and when they do again, to the use in the meantime.
func TestClusterIsCut(t *testing.T) {
	now, let := time.Now().Add(time.Hour), 0
	all := joinCluster(t, 3, "requests-per-minute=30 concurrency=9", now)
	for _, s := range all {
		s.bus.isCut.Store(true)
	}
	for range 12 { // each waits for the others
		for _, s := range all {
			if key := s.key(); key.Begin(now) == nil {
				key.End()
				let++
			}
		}
	}
	assert.Equal(t, 30, let, "a third of the rate each")
	var inside []*clientkey.Key
	later := now.Add(time.Hour)
	for range 12 { // each waits for the others
		for _, s := range all {
			if key := s.key(); key.Begin(later) == nil {
				inside = append(inside, key)
			}
		}
	}
	assert.Len(t, inside, 9, "a third of the places each")
	for _, s := range all {
		s.bus.isCut.Store(false)
	}
	for _, s := range all {
		await(t, func() bool { missing, inFlight, _ := s.key().Known(later); return missing >= 9 && inFlight == 9 })
	}
	require.Error(t, all[0].key().Begin(later))
	for _, key := range inside {
		key.End()
	}
	for _, s := range all {
		await(t, func() bool { _, inFlight, _ := s.key().Known(later); return inFlight == 0 })
	}
}

// TestRouterEndsInACluster: the places of a router that ends, or dies, are free again, and so is its share.
func TestRouterEndsInACluster(t *testing.T) {
	for name, end := range map[string]func(*sharer){"it says so": func(s *sharer) { s.stop() }, "it dies": func(s *sharer) { s.bus.isCut.Store(true) }} {
		all := joinCluster(t, 3, "concurrency=3", time.Time{})
		for _, s := range all {
			require.NoError(t, s.key().Begin(time.Now()))
		}
		awaitAgreed(t, all, 3)
		require.Error(t, all[0].key().Begin(time.Now()))
		end(all[2])
		awaitSize(t, all[:2], 2)
		require.NoError(t, all[0].key().Begin(time.Now()), name)
		awaitAgreed(t, all[:2], 3)
		require.Error(t, all[1].key().Begin(time.Now()), name)
	}
}

// lossy is a bus whose messages are late and may be lost, but for the order of those that arrive.
type lossy struct {
	mu    sync.Mutex
	hear  []func([]byte)
	rng   *rand.Rand
	loses float64
}

func (l *lossy) PublishOwn(_ string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.hear {
		if l.rng.Float64() >= l.loses {
			data := slices.Clone(data)
			time.AfterFunc(3*time.Millisecond, func() { f(data) })
		}
	}
	return nil
}

func (l *lossy) SubscribeOwn(_ string, f func(string, []byte)) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hear = append(l.hear, func(data []byte) { f("", data) })
	return func() {}, nil
}

// TestRateOverTime: a client that asks three routers for three times its rate, for twenty minutes and on a bus that loses every third
// message, gets its rate, and a client of one router gets its whole rate.
func TestRateOverTime(t *testing.T) {
	for _, only := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			bus := &lossy{rng: rand.New(rand.NewPCG(3, 4)), loses: 0.3}
			var all []*sharer
			for _, id := range []string{"r1", "r2", "r3"} {
				all = append(all, joinShare(t, bus, id, "requests-per-minute=100", time.Time{}))
			}
			time.Sleep(5 * time.Second)
			const minutes = 20
			let := 0
			for range minutes * 300 {
				s := all[rng.IntN(3)]
				if only {
					s = all[0]
				}
				if key := s.key(); key.Begin(time.Now()) == nil {
					key.End()
					let++
				}
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Minute/300)))
			}
			assert.InDelta(t, minutes*100+100, let, 50, "only one router: %v", only)
			for _, s := range all {
				s.stop()
			}
			time.Sleep(time.Second)
		})
	}
}
