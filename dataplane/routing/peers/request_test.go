package peers_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const deadline = 20 * time.Millisecond

// emptiest makes r choose the rank with the fewest requests in its view.
func emptiest(r *router) {
	r.chosen = func(*routing.PeerRequest) *worker.Rank {
		best := r.rank(0)
		for _, rank := range r.registry.Snapshot().Ranks {
			if rank.Load.View(time.Now()).InFlight < best.Load.View(time.Now()).InFlight {
				best = rank
			}
		}
		return best
	}
}

// burst sends n requests by each of the routers but the first at one instant.
func burst(routers []*router, n int) (answers []routing.PeerReply, by []*router) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range routers[1:] {
		for range n {
			wg.Go(func() {
				_ = r.Active() // as a router does before
				if a, ok := r.Choose(&routing.PeerRequest{Model: "m", Tokens: 100, Exact: true}); ok {
					mu.Lock()
					defer mu.Unlock()
					answers, by = append(answers, a), append(by, r)
				}
			})
		}
	}
	wg.Wait()
	return answers, by
}

// TestOneChoosesForAll: a burst at several routers is spread as by one, and from the choice to
// the end each request counts once at the router that chose.
func TestOneChoosesForAll(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 4, 6)
		defer stopAll(routers)
		chief := routers[0]
		emptiest(chief)
		require.False(t, chief.Active())
		require.True(t, routers[1].Active())
		require.Equal(t, "router-4", routers[3].Status().Leader)
		start := time.Now()
		answers, by := burst(routers, 10)
		require.Len(t, answers, 30)
		require.Equal(t, 400*time.Microsecond, time.Since(start))
		counts := func(what string, each, tokens int64) {
			for i := range 6 {
				v := chief.see(i)
				require.Equal(t, []int64{each, tokens}, []int64{v.InFlight, v.Pending}, "%s: worker %d", what, i)
			}
		}
		counts("chosen", 5, 500)
		leases := make([]worker.Lease, len(answers))
		for i, a := range answers {
			for _, rank := range by[i].registry.Snapshot().Ranks {
				if rank.IDHash() == a.Rank {
					leases[i] = rank.Load.Begin(100)
				}
			}
			by[i].Sent(a.Number)
			time.Sleep(300 * time.Microsecond)
			counts("being sent", 5, 500)
		}
		for range 1500 {
			time.Sleep(time.Millisecond)
			counts("sent", 5, 500)
		}
		for i := range leases {
			leases[i].FirstByte()
		}
		time.Sleep(20 * time.Millisecond)
		counts("begun", 5, 0)
		for i := range leases {
			leases[i].End()
		}
		time.Sleep(20 * time.Millisecond)
		counts("ended", 0, 0)
		require.EqualValues(t, 30, chief.Status().Judged)
		require.EqualValues(t, 10, routers[2].Status().Chosen)
	})
}

// TestPromisesEnd: an unused choice does not count for long.
func TestPromisesEnd(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 2, 1)
		defer stopAll(routers)
		_, _ = burst(routers, 5)
		require.EqualValues(t, 5, routers[0].see(0).InFlight)
		time.Sleep(1600 * time.Millisecond)
		require.Zero(t, routers[0].see(0).InFlight)

		b.with(func() { b.delay = func(_ *rand.Rand) time.Duration { return 11 * time.Millisecond } })
		answers, _ := burst(routers, 1)
		require.Empty(t, answers, "22 ms are too late")
		time.Sleep(50 * time.Millisecond)
		require.Zero(t, routers[0].see(0).InFlight, "who was answered too late says so")
		require.EqualValues(t, 1, routers[1].Status().Late)
		b.with(func() { b.delay = func(_ *rand.Rand) time.Duration { return time.Millisecond } })
		answers, _ = burst(routers, 1)
		require.Len(t, answers, 1, "one that is late says little")
	})
}

// TestLeaderDies: a dead leader costs waiting requests one deadline, and then one request now
// and then, until the next one leads.
func TestLeaderDies(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 3, 1)
		defer stopAll(routers)
		b.with(func() { b.deaf["router-3"] = true })
		start := time.Now()
		answers, _ := burst(routers[1:], 20)
		require.Empty(t, answers)
		require.Equal(t, deadline, time.Since(start), "all wait at the same time")
		last := routers[2]
		waited, slow := time.Duration(0), 0
		for time.Since(start) < 2600*time.Millisecond {
			before := time.Now()
			if last.Active() {
				_, ok := last.Choose(&routing.PeerRequest{Tokens: 1})
				if took := time.Since(before); !ok && took > 0 {
					waited, slow = max(waited, took), slow+1
				}
			}
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, waited, deadline)
		require.LessOrEqual(t, slow, 8, "of some 2,000 requests")
		require.Equal(t, "router-2", last.Status().Leader)
		answers, _ = burst(routers[1:], 5)
		require.Len(t, answers, 5)

		b.with(func() { b.deaf["router-3"] = false })
		time.Sleep(time.Second)
		require.Equal(t, "router-3", last.Status().Leader, "who was cut off knows its requests best, and has for longest")
		answers, _ = burst(routers, 5)
		require.Len(t, answers, 10)
	})
}

// TestLeaderWithoutRank: a leader without a rank says so, and gets further requests.
func TestLeaderWithoutRank(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := newBus(200 * time.Microsecond)
		routers := cluster(t, b, 2, 1)
		defer stopAll(routers)
		routers[0].err = routing.ErrUnknownModel
		answers, _ := burst(routers, 3)
		require.Empty(t, answers)
		require.True(t, routers[1].Active())
		require.EqualValues(t, 3, routers[1].Status().Refused)
		require.Zero(t, routers[1].Status().Late)
	})
}
