package routing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// other is a leader in this process.
type other struct {
	router  *routing.Router
	scratch routing.Scratch
	away    bool                     // it does not answer
	change  func(*routing.PeerReply) // of its answers; may be nil
	asked   int
	sent    []uint64
	last    routing.PeerRequest
}

var _ routing.Peers = (*other)(nil)

func (o *other) Active() bool { return true }

func (o *other) Sent(number uint64) { o.sent = append(o.sent, number) }

func (o *other) Present() bool { return false }

func (o *other) Tell(uint64, int, []uint32) uint64 { return 0 }

func (o *other) Done(uint64) {}

func (o *other) Choose(a *routing.PeerRequest) (answer routing.PeerReply, ok bool) {
	o.asked++
	o.last = *a
	o.last.Overlaps = append([]routing.RankOverlap{}, a.Overlaps...)
	if o.away {
		return answer, false
	}
	d, err := o.router.ChooseFor(&o.scratch, a)
	if err != nil {
		return answer, false
	}
	answer = routing.PeerReply{Number: uint64(o.asked), Rank: d.Rank.IDHash(), Cost: d.Choice.Cost}
	if d.Decode != nil {
		answer.Decode = d.Decode.IDHash()
	}
	if o.change != nil {
		o.change(&answer)
	}
	return answer, true
}

// asking returns a router that chooses by itself, and one that sends it requests.
func (f *fleet) asking(p policy.Policy) (own, asks *routing.Router, o *other) {
	own, asks = f.with(p), f.with(p)
	o = &other{router: own}
	asks.Peers = o
	return own, asks, o
}

// busy gives ranks load and reports at random.
func (f *fleet) busy(rng *rand.Rand) {
	for _, rank := range f.ranks {
		for range rng.IntN(4) {
			_ = rank.Load.Begin(rng.IntN(20_000))
		}
		if rng.IntN(2) == 0 {
			rank.Load.Report(time.Now(), worker.Report{
				Running: rng.Int64N(8), Queued: rng.Int64N(10_000), Used: rng.Int64N(50_000), Pool: 100_000, Most: 16,
				Prefilled: 1_000_000, Busy: time.Duration(50+rng.IntN(100)) * time.Second,
			})
		}
	}
}

// TestLeaderChoosesAlike: a leader chooses for another router as for a request of its own, in
// all that follows from the choice: with any holders, tiers, predictions and loads; alone, in
// pairs and in mixed clusters.
func TestLeaderChoosesAlike(t *testing.T) {
	fleets := map[string][]*node{
		"alone": {tiny(), tiny(), tiny(), {models: named(model), dp: 2}},
		"pairs": {{models: named(model), mode: "prefill"}, {models: named(model), mode: "prefill"}, {models: named(model), mode: "decode"}, {models: named(model), mode: "decode"}},
		"mixed": {tiny(), {models: named(model), mode: "prefill"}, {models: named(model), mode: "decode"}, tiny()},
	}
	for name, nodes := range fleets {
		// In a bubble, where no time passes between the two choices: backlogs become less with
		// time.
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Minute) }) // the clients' cleaners of connections end
				alike(t, nodes)
			})
		})
	}
}

// alike compares the choices of an asking router with those of its leader.
func alike(t *testing.T, nodes []*node) {
	t.Helper()
	differ := map[string]int{}
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 8))
		f := newFleet(t, nodes...)
		own, asks, o := f.asking(policy.KV{Options: policy.Defaults})
		f.busy(rng)
		for id := range uint32(6) {
			for range rng.IntN(4) {
				f.holds(rng.IntN(len(f.ranks)), radix.DomainKey{}, tokens(id, 2000), 1+rng.IntN(500), [...]radix.Tier{radix.TierGPU, radix.TierCPU}[rng.IntN(2)])
			}
		}
		var s, s2 routing.Scratch
		for range 30 {
			p := prompt(tokens(rng.Uint32N(6), 1+rng.IntN(2000)))
			p.Output = rng.IntN(3) * 100
			want, err := own.Pick(&s, p, nil)
			require.NoError(t, err)
			got, err := asks.Pick(&s2, p, nil)
			require.NoError(t, err)
			about := func(d *routing.Decision) string {
				decode := "none"
				if d.Decode != nil {
					decode = fmt.Sprint(d.Decode.ID(), " ", d.DecodeTokens())
				}
				return fmt.Sprint(d.Rank.ID(), " ", d.Matched, d.Total, d.Cached, d.Predicted, d.Uncached(), d.Exact, d.Source, " decode ", decode)
			}
			require.Equal(t, about(&want), about(&got), "seed %d", seed)
			differ[want.Rank.ID()]++
			if rng.IntN(2) == 0 { // requests in flight are predicted by their router
				asks.Dispatch(&s2, p, &got)
				own.Dispatch(&s, p, &want)
			}
		}
		require.Equal(t, 30, o.asked)
	}
	require.Greater(t, len(differ), 1, "all went to the same rank, and nothing was shown")
}

// TestAskingRouterDecides: a reply that is late or names no candidate leaves the choice to the
// asking router.
func TestAskingRouterDecides(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	_, asks, o := f.asking(policy.LeastLoad{})
	p := prompt(tokens(1, 100))
	own := func(what string) {
		t.Helper()
		d, err := asks.Pick(&f.scratch, p, nil)
		require.NoError(t, err, what)
		require.NotContains(t, d.Choice.Why, "router", what)
		asks.Withdraw(asks.Dispatch(&f.scratch, p, &d))
	}
	d, err := asks.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	require.Contains(t, d.Choice.Why, "router")
	require.Empty(t, o.sent, "it is not counted yet")
	asks.Withdraw(asks.Dispatch(&f.scratch, p, &d))
	require.Equal(t, []uint64{1}, o.sent)

	o.change = func(a *routing.PeerReply) { a.Rank++ }
	own("an unknown rank")
	require.Equal(t, []uint64{1, 2}, o.sent, "what was promised is not needed")
	o.change = func(a *routing.PeerReply) { a.Decode = f.ranks[0].IDHash() }
	own("a pair of ranks that need none")
	o.change, o.away = nil, true
	own("no answer")
	asked := o.asked
	d, err = asks.Pick(&f.scratch, p, f.ranks[:1])
	require.NoError(t, err)
	require.Same(t, f.ranks[1], d.Rank)
	require.Equal(t, asked, o.asked, "who has been refused once knows more than others")
}

// TestCommonOverlapIsSentOnce: the overlap of most ranks, however many, is sent once.
func TestCommonOverlapIsSentOnce(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny(), tiny())
	_, asks, o := f.asking(policy.KV{Options: policy.Defaults})
	for i := range 4 {
		f.holds(i, radix.DomainKey{}, tokens(1, 100), 5, radix.TierGPU)
	}
	f.holds(3, radix.DomainKey{}, tokens(1, 100), 20, radix.TierCPU)
	_, err := asks.Pick(&f.scratch, prompt(tokens(1, 100)), nil)
	require.NoError(t, err)
	require.Equal(t, 20, o.last.Common.Cached)
	require.Len(t, o.last.Overlaps, 2)
	require.Equal(t, 100, o.last.Tokens)
}

func BenchmarkArbitrate(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("ranks=%d", n), func(b *testing.B) {
			nodes := make([]*node, 0, n)
			for range n {
				nodes = append(nodes, tiny())
			}
			f := newFleet(b, nodes...)
			for i := range min(n, 8) {
				f.holds(i, radix.DomainKey{}, tokens(1, 4000), 100*i+1, radix.TierGPU)
			}
			view := &ingest.View{Shapes: f.shapes}
			own := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 42 })
			asks := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 42 })
			o := &other{router: own}
			asks.Peers = o
			_, err := asks.Pick(&f.scratch, prompt(tokens(1, 4000)), nil)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := own.ChooseFor(&o.scratch, &o.last); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
