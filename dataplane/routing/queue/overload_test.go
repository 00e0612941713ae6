package queue_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// asked is one request of a client that leaves when it has waited for too long.
type asked struct {
	at       time.Duration
	client   uint64
	patience time.Duration // that it tells; 0: it tells none
	leaves   time.Duration // after at
	serves   time.Duration // from its dispatch to the end of its answer
	together bool          // it ends with all others, every such time

	took   time.Duration // until its answer or refusal
	good   bool
	reason queue.Reason
}

// play runs requests against ranks, in simulated time.
func play(t *testing.T, r *ranks, all []*asked) queue.Stats {
	t.Helper()
	g := queue.New(queue.Config{Ranks: r.lanes})
	defer g.Close()
	var wg sync.WaitGroup
	began := time.Now()
	for _, a := range all {
		time.Sleep(a.at - time.Since(began))
		wg.Go(func() {
			start := time.Now()
			gone := make(chan struct{})
			left := time.AfterFunc(a.leaves, func() { close(gone) })
			defer left.Stop()
			var p queue.Permit
			var err error
			if g.Engaged() {
				p, err = g.Enter(gone, "m", &queue.Waiter{Client: a.client, Tokens: 1000, Patience: a.patience, DP: queue.AnyDP, Priority: queue.NoPriority})
			}
			if refused, ok := err.(*queue.RefusedError); ok { //nolint:errorlint // Enter's own
				a.reason, a.took = refused.Reason, time.Since(start)
				return
			}
			if err != nil {
				return
			}
			rank := 0
			for i, l := range r.loads {
				if any(l) == p.Rank() || p.Rank() == nil && l.Load() < r.loads[rank].Load() {
					rank = i
				}
			}
			r.begin(g, &p, rank)
			serves := a.serves
			if a.together {
				serves -= time.Since(began) % serves
			}
			select {
			case <-time.After(serves):
				a.good, a.took = true, time.Since(start)
			case <-gone:
			}
			r.end(g, rank)
		})
		synctest.Wait()
	}
	wg.Wait()
	return g.Stats()
}

// arrivals come at a rate a second between two times, each of a client of its own.
func arrivals(rng *rand.Rand, rate float64, from, to time.Duration) (all []*asked) {
	for at := from; ; {
		at += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
		if at >= to {
			return all
		}
		all = append(all, &asked{at: at, client: rng.Uint64(), leaves: 10 * time.Second, serves: time.Duration((0.5 + rng.Float64()) * float64(time.Second))})
	}
}

// Two ranks answer 16 requests a second.
const places, capacity = 8, 16.0

// TestOverloadKeepsGoodput: whoever leaves after 10 s, and however many come, the ranks work for
// clients that still wait.
func TestOverloadKeepsGoodput(t *testing.T) {
	for _, times := range []float64{1.3, 3, 10, -3} { // below 0: all answers end together
		bubbletest.Test(t, func(t *testing.T) {
			times, together, r := math.Abs(times), times < 0, newRanks(2, places)
			all := arrivals(rand.New(rand.NewPCG(1, 2)), times*capacity, 0, 120*time.Second)
			if together {
				r.most *= 3
				for _, a := range all {
					a.serves, a.together = 3*time.Second, true
				}
			}
			play(t, r, all)
			good, refused := 0, []time.Duration(nil)
			for _, a := range all {
				switch {
				case a.at < time.Minute:
				case a.good:
					good++
				case a.reason != "":
					refused = append(refused, a.took)
				}
			}
			t.Logf("%v x capacity: %d good of %v, %d refused", times, good, 60*capacity, len(refused))
			require.GreaterOrEqual(t, float64(good), 0.9*60*capacity, "%v x capacity", times)
			require.Greater(t, float64(len(refused)), 0.8*(times-1)*60*capacity, "%v x capacity: they are told so", times)
			slices.Sort(refused)
			if times >= 3 {
				require.Less(t, refused[len(refused)*95/100], 3*time.Second, "%v x capacity: and soon", times)
			}
		})
	}
}

// TestBurstIsNotRefused: ten times the capacity for a second is nine seconds of work.
func TestBurstIsNotRefused(t *testing.T) {
	for seed := range uint64(4) {
		bubbletest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			all := slices.Concat(
				arrivals(rng, 0.9*capacity, 0, 60*time.Second), // now and then, the ranks are full
				arrivals(rng, 0.2*capacity, 60*time.Second, 90*time.Second),
				arrivals(rng, 9*capacity, 90*time.Second, 91*time.Second),
				arrivals(rng, 0.2*capacity, 91*time.Second, 120*time.Second))
			play(t, newRanks(2, places), all)
			for i, a := range all {
				if a.at < 60*time.Second || a.at > 91*time.Second {
					continue
				}
				require.True(t, a.good || a.reason == "" && a.at > 90*time.Second, "request %d at %v was refused (%s)", i, a.at, a.reason)
			}
		})
	}
}

// TestColdBurstIsNotRefused: nothing is known of the ranks when it comes.
func TestColdBurstIsNotRefused(t *testing.T) {
	for _, short := range []time.Duration{time.Second, 50 * time.Millisecond} {
		bubbletest.Test(t, func(t *testing.T) {
			var all []*asked
			for i := range 64 { // of 16 at a time
				a := &asked{client: uint64(i), leaves: time.Hour, serves: 3 * time.Second}
				if i%16 == 0 {
					a.serves = short // the first ends say little of the others
				}
				all = append(all, a)
			}
			for at := time.Duration(0); at < 10*time.Second; at += 100 * time.Millisecond {
				all = append(all, &asked{at: at, client: 100, patience: 30 * time.Second, leaves: time.Hour, serves: time.Millisecond})
			}
			slices.SortStableFunc(all, func(a, b *asked) int { return int(a.at - b.at) })
			play(t, newRanks(2, places), all)
			for i, a := range all {
				require.True(t, a.good, "request %d (%s after %v)", i, a.reason, a.took)
			}
		})
	}
}

// TestPatientRequestsWait: a batch that waits for an hour is answered, and is in nobody's way.
func TestPatientRequestsWait(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		var batch []*asked
		for range 800 {
			batch = append(batch, &asked{client: 7, patience: time.Hour, leaves: time.Hour, serves: time.Second})
		}
		people := arrivals(rng, 0.5*capacity, time.Second, 2*time.Minute)
		play(t, newRanks(2, places), slices.Concat(batch, people))
		for _, a := range batch {
			require.True(t, a.good, "%s after %v", a.reason, a.took)
		}
		for _, a := range people {
			require.True(t, a.good, "%s after %v", a.reason, a.took)
		}
	})
}

// TestDeadlineOfTheClient: what cannot be met is refused at once, and what was not met at its
// time.
func TestDeadlineOfTheClient(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		all := arrivals(rand.New(rand.NewPCG(7, 8)), 1.5*capacity, 0, 9*time.Second)
		hasty := &asked{at: 9 * time.Second, client: 1, patience: time.Second, leaves: time.Hour, serves: time.Second}
		calm := &asked{at: 9 * time.Second, client: 2, patience: 9 * time.Second, leaves: time.Hour, serves: time.Second}
		play(t, newRanks(2, places), append(all, hasty, calm))
		require.Equal(t, queue.ReasonPredicted, hasty.reason)
		require.Zero(t, hasty.took)
		require.True(t, calm.good)
	})
	bubbletest.Test(t, func(t *testing.T) { // nothing ever ends: nothing is known, and nobody is refused early
		var all []*asked
		for i := range 100 {
			all = append(all, &asked{client: uint64(i), patience: time.Duration(i%2) * 3 * time.Second, leaves: time.Hour, serves: 30 * time.Minute})
		}
		play(t, newRanks(2, places), all)
		for i, a := range all[16:] {
			require.Equal(t, queue.ReasonDeadline, a.reason)
			require.Equal(t, []time.Duration{10 * time.Second, 3 * time.Second}[i%2], a.took)
		}
	})
}

// TestOverloadIsFair: a client with few requests is served beside one that floods.
func TestOverloadIsFair(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 10))
		flood, quiet := arrivals(rng, 5*capacity, 0, 90*time.Second), arrivals(rng, 0.2*capacity, 0, 90*time.Second)
		for _, a := range flood {
			a.client = 1
		}
		for _, a := range quiet {
			a.client = 2
		}
		all := slices.Concat(flood, quiet)
		slices.SortStableFunc(all, func(a, b *asked) int { return int(a.at - b.at) })
		play(t, newRanks(2, places), all)
		for _, a := range quiet {
			require.True(t, a.good, "at %v: %s after %v", a.at, a.reason, a.took)
		}
	})
}
