package routing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// exact makes all ranks tell by events what they hold.
func (f *fleet) exact() {
	for _, rank := range f.ranks {
		rank.SetExact(true)
	}
}

// TestFewAreAsGoodAsAll: what is chosen among few ranks costs what the choice among all does, by the same facts, whoever holds what and
// however load is spread.
func TestFewAreAsGoodAsAll(t *testing.T) {
	bubble(t, 300, func(f *fleet) {
		f.exact()
		r := f.with(policy.KV{Options: policy.Defaults})
		rng := rand.New(rand.NewPCG(1, 9))
		for id := range uint32(20) {
			for range 1 + rng.IntN(4) {
				f.holds(rng.IntN(len(f.ranks)), radix.DomainKey{}, tokens(id, 1000), 1+rng.IntN(250), [...]radix.Tier{radix.TierGPU, radix.TierCPU}[rng.IntN(2)])
			}
		}
		var s, all routing.Scratch
		few := 0
		for range 60 {
			f.shake(rng)
			for range 10 {
				p := prompt(tokens(rng.Uint32N(25), 1+rng.IntN(1000)))
				p.Output = 100
				f.asGood(r, &s, &all, p)
				if s.Considered() < len(f.ranks) {
					few++
				}
			}
		}
		require.Greater(t, few, 500, "all ranks were looked at, and nothing was shown")
	})
}

// asGood requires that a choice costs what the choice among all ranks does, begins the request there, and returns what is said of its rank.
func (f *fleet) asGood(r *routing.Router, s, all *routing.Scratch, p *routing.Prompt) routing.Considered {
	f.t.Helper()
	d, err := r.Pick(s, p, nil)
	require.NoError(f.t, err)
	e := r.Explain(all, p, 42)
	require.NoError(f.t, e.Err)
	require.Len(f.t, e.Ranks, len(f.ranks), "explained is what all are")
	i := slices.IndexFunc(e.Ranks, func(c routing.Considered) bool { return c.Rank == d.Rank })
	// Ties of 8 tokens are drawn.
	require.InDelta(f.t, e.Decision.Choice.Cost, e.Ranks[i].Score, 0.002, "%s against %s", d.Rank.ID(), e.Decision.Rank.ID())
	_ = d.Rank.Load.Begin(d.Uncached())
	return e.Ranks[i]
}

// shake has up to 200 ranks report other loads, and waits until the order of before is too old.
func (f *fleet) shake(rng *rand.Rand) {
	for range rng.IntN(3) * 100 {
		f.ranks[rng.IntN(len(f.ranks))].Load.Report(time.Now(), worker.Report{
			Running: rng.Int64N(60), Queued: rng.Int64N(20_000), Used: rng.Int64N(90_000), Pool: 100_000, Most: 64, Prefilled: 1_000_000, Busy: 100 * time.Second,
		})
	}
	time.Sleep(11 * time.Millisecond)
}

// TestFewAreFit: a rank that is not fit any more is not chosen, however lately the order was made; it is made anew where few are left.
func TestFewAreFit(t *testing.T) {
	bubble(t, 300, func(f *fleet) {
		f.exact()
		r := f.with(policy.KV{Options: policy.Defaults})
		seen := map[*worker.Rank]bool{}
		for range f.ranks {
			d, err := r.Pick(&f.scratch, prompt(tokens(1, 1000)), nil)
			require.NoError(t, err)
			require.False(t, seen[d.Rank], "it is drained")
			seen[d.Rank] = true
			d.Rank.Worker.Drain(true)
		}
		_, err := r.Pick(&f.scratch, prompt(tokens(1, 1000)), nil)
		require.ErrorIs(t, err, routing.ErrNoWorker)
	})
}

// TestFewForAnother: questions of other routers are answered alike.
func TestFewForAnother(t *testing.T) {
	bubble(t, 300, func(f *fleet) {
		f.exact()
		own, asks, o := f.asking(policy.KV{Options: policy.Defaults})
		f.holds(7, radix.DomainKey{}, tokens(1, 4000), 900, radix.TierGPU)
		f.holds(8, radix.DomainKey{}, tokens(1, 4000), 400, radix.TierGPU)
		for i := range 20 {
			d, err := asks.Pick(&f.scratch, prompt(tokens(1, 4000)), nil)
			require.NoError(t, err)
			require.Same(t, f.ranks[7], d.Rank, "request %d", i)
			require.Contains(t, d.Choice.Why, "router")
		}
		_, err := own.Arbitrate(&o.scratch, &o.last)
		require.NoError(t, err)
		require.Less(t, o.scratch.Considered(), 300)
	})
}

// TestFewLearnNewNames: what begins to be held after the order was made is found, by whatever id.
func TestFewLearnNewNames(t *testing.T) {
	bubble(t, 300, func(f *fleet) {
		f.exact()
		r := f.with(policy.KV{Options: policy.Defaults})
		for id := range uint32(40) {
			at := int(id * 7)
			_, err := r.Pick(&f.scratch, prompt(tokens(1000, 100)), nil)
			require.NoError(t, err)
			f.holds(at, radix.DomainKey{}, tokens(id, 4000), 900, radix.TierGPU)
			d, err := r.Pick(&f.scratch, prompt(tokens(id, 4000)), nil)
			require.NoError(t, err)
			require.Same(t, f.ranks[at], d.Rank)
			flight := r.Dispatch(&f.scratch, prompt(tokens(id, 4000)), &d) // has a seat from now on
			time.Sleep(time.Millisecond)
			r.Land(flight)
		}
	})
}

func BenchmarkPickOfMany(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, every := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
			b.Run(fmt.Sprintf("ranks=%d/gap=%v", n, every), func(b *testing.B) {
				nodes := make([]*node, n)
				for i := range nodes {
					nodes[i] = tiny()
				}
				f := newFleet(b, nodes...)
				f.exact()
				for i := range min(n, 8) {
					f.holds(i, radix.DomainKey{}, tokens(1, 4000), 100*i+1, radix.TierGPU)
				}
				f.busy(rand.New(rand.NewPCG(1, 1)))
				r := f.with(policy.KV{Options: policy.Defaults})
				p := prompt(tokens(1, 4000))
				b.ReportAllocs()
				spent := time.Duration(0)
				b.ResetTimer()
				for range b.N {
					time.Sleep(every)
					began := time.Now()
					if _, err := r.Pick(&f.scratch, p, nil); err != nil {
						b.Fatal(err)
					}
					spent += time.Since(began)
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/choice")
			})
		}
	}
}
