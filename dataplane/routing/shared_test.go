package routing_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// TestFingerprints: fingerprints show at least 8/9 of the tokens that two prompts share, all of
// them where they are equal, and never more.
func TestFingerprints(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	make1 := func(n int) []uint32 {
		all := make([]uint32, n)
		for i := range all {
			all[i] = rng.Uint32N(9)
		}
		return all
	}
	for range 3000 {
		n := rng.IntN(1 << (1 + rng.IntN(14)))
		a := &routing.Prompt{Tokens: make1(n)}
		share := rng.IntN(n + 1)
		b := &routing.Prompt{Tokens: append(slices.Clone(a.Tokens[:share]), make1(rng.IntN(1<<(1+rng.IntN(14))))...)}
		if rng.IntN(3) == 0 {
			b.Tokens = slices.Clone(a.Tokens)
		}
		common := 0
		for common < min(len(a.Tokens), len(b.Tokens)) && a.Tokens[common] == b.Tokens[common] {
			common++
		}
		am, bm := routing.AppendFingerprints(nil, "m", a), routing.AppendFingerprints(nil, "m", b)
		require.Len(t, am, routing.CountFingerprints(len(a.Tokens)))
		got := routing.SharedTokens(len(a.Tokens), am, bm)
		require.LessOrEqual(t, got, common, "%d and %d tokens", len(a.Tokens), len(b.Tokens))
		require.Equal(t, got, routing.SharedTokens(len(b.Tokens), bm, am))
		if slices.Equal(a.Tokens, b.Tokens) {
			require.Equal(t, common, got)
		} else {
			require.GreaterOrEqual(t, got, common-max(63, common/9), "of %d", common)
		}
		for _, other := range [][]uint32{
			routing.AppendFingerprints(nil, "another", b), routing.AppendFingerprints(nil, "m", &routing.Prompt{Tokens: b.Tokens, LoRA: "x"}),
			routing.AppendFingerprints(nil, "m", &routing.Prompt{Tokens: b.Tokens, Salt: "x"}),
		} {
			require.Zero(t, routing.SharedTokens(len(a.Tokens), am, other), "another model, adapter or salt")
		}
	}
	require.Equal(t, 41, routing.CountFingerprints(8192+64))
	require.Less(t, routing.CountFingerprints(1<<31), routing.MaxFingerprints)
}

// herald tells other routers at once of the prompts of one.
type herald struct {
	of     uint64 // the router that tells
	others []*routing.Router
	ranks  []*worker.Rank
	next   uint64
}

func (*herald) Sending() bool { return true }

func (o *herald) Routers() int { return len(o.others) + 1 }

func (o *herald) Tell(hash uint64, fingerprints []uint32) uint64 {
	o.next++
	rank := o.ranks[slices.IndexFunc(o.ranks, func(r *worker.Rank) bool { return r.IDHash() == hash })]
	if rank.Load.PeersInFlight() == 0 { // one rank for all here: none counts its own as another's
		rank.Load.ReplacePeer(time.Now(), worker.RouterLoad{}, worker.RouterLoad{InFlight: 1, Waiting: 1})
	}
	for _, r := range o.others {
		r.Shared.Add(time.Now(), routing.PromptID{Router: o.of, Number: o.next}, rank, fingerprints)
	}
	return o.next
}

func (o *herald) Done(number uint64) {
	for _, r := range o.others {
		r.Shared.Done(time.Now(), routing.PromptID{Router: o.of, Number: number})
	}
}

// TestEqualPromptsOfRouters: a prompt that one router has sent is predicted at its rank when
// another router has an equal or a longer one, until it is computed.
func TestEqualPromptsOfRouters(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny(), tiny(), tiny())
	seed := uint64(0)
	with := func() *routing.Router { // each with an index of its own, as a process has
		seed++
		return routing.New(f.registry, radix.New(radix.Config{Seed: seed}), func() *ingest.View { return &ingest.View{Shapes: f.shapes} },
			policy.KV{Options: policy.Defaults}, func() uint64 { return 42 })
	}
	one, two, three := with(), with(), with()
	one.Peers = &herald{of: 1, others: []*routing.Router{two, three}, ranks: f.ranks}
	two.Peers = &herald{of: 2, others: []*routing.Router{one, three}, ranks: f.ranks}
	pick := func(r *routing.Router, p *routing.Prompt) (*routing.Scratch, routing.Decision) {
		var s routing.Scratch
		d, err := r.Pick(&s, p, nil)
		require.NoError(t, err)
		return &s, d
	}
	send := func(r *routing.Router, p *routing.Prompt) (*routing.Prediction, *worker.Rank) {
		s, d := pick(r, p)
		return r.Dispatch(s, p, &d), d.Rank
	}
	p := prompt(tokens(1, 6000))
	flight, home := send(one, p)
	for range 20 {
		for _, r := range []*routing.Router{two, three} {
			_, d := pick(r, p)
			require.Same(t, home, d.Rank, "an equal prompt at another router")
			require.GreaterOrEqual(t, d.Predicted, 5996)
			require.Zero(t, d.Cached, "nothing is known to be there")
		}
	}
	_, d := pick(three, prompt(append(tokens(1, 6000), tokens(2, 700)...)))
	require.Same(t, home, d.Rank, "a longer one")
	require.GreaterOrEqual(t, d.Predicted, 5333)
	_, d = pick(three, prompt(tokens(9, 6000)))
	require.Zero(t, d.Predicted, "another one")

	flight.Prefilled()
	require.Eventually(t, func() bool {
		_, d := pick(three, p)
		return d.Predicted == 0
	}, 5*time.Minute, time.Millisecond, "events tell of it now")
	one.Withdraw(flight)
	_, d = pick(two, p)
	require.Zero(t, d.Predicted)

	q := prompt(tokens(3, 6000))
	flight, home = send(two, q)
	_, d = pick(one, q)
	require.Same(t, home, d.Rank)
	two.Withdraw(flight)
}

// TestExpectedIsBounded: no history of prompts makes more than 512 entries under way, and routers
// that are forgotten leave none.
func TestExpectedIsBounded(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	x, rng, now, done := &f.router.Shared, rand.New(rand.NewPCG(1, 1)), time.Unix(1000, 0), []time.Time{}
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(2)) * time.Millisecond)
		by := routing.PromptID{Router: rng.Uint64N(4), Number: rng.Uint64N(5000)}
		switch rng.IntN(3) {
		case 0, 1:
			x.Add(now, by, f.ranks[rng.IntN(2)], make([]uint32, rng.IntN(300)))
		case 2:
			x.Done(now, by)
			done = append(done, now)
		}
		for len(done) > 0 && now.Sub(done[0]) > remembered {
			done = done[1:]
		}
		require.LessOrEqual(t, f.router.SharedPredictions(), 512+len(done)+1)
	}
	require.Positive(t, f.router.SharedPredictions())
	for router := range uint64(4) {
		x.Forget(router)
	}
	require.Zero(t, f.router.SharedPredictions())
	require.Zero(t, f.index.Stats().Predictions)
}

// TestExpectedEnds: a prompt counts for a minute, and one that is done for 100 ms.
func TestExpectedEnds(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		p, by := prompt(tokens(1, 100)), routing.PromptID{Router: 1, Number: 7}
		marks := routing.AppendFingerprints(nil, model, p)
		want := func(tokens int, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			f.pick(p)
			require.Equal(t, []int{0, tokens}, f.predicted())
		}
		f.router.Shared.Add(time.Now(), by, f.ranks[1], marks)
		want(0, 0) // of a router without a request there
		f.ranks[1].Load.ReplacePeer(time.Now(), worker.RouterLoad{}, worker.RouterLoad{InFlight: 1, Waiting: 1})
		add := func() { f.router.Shared.Add(time.Now(), by, f.ranks[1], marks) }
		add()
		want(96, 50*time.Second)
		want(0, 20*time.Second)
		add()
		add()
		f.router.Shared.Done(time.Now(), by)
		want(96, 50*time.Millisecond)
		want(0, 100*time.Millisecond)
		f.router.Shared.Add(time.Now(), by, f.ranks[1], nil)
		want(0, 0)
	})
}

// TestExpectedIsShared: a router that tells of prompts without end, by any number of processes, drops
// its own.
func TestExpectedIsShared(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		tell := func(owner string, router, number uint64) {
			f.router.Shared.Add(time.Now(), routing.PromptID{Owner: owner, Router: router, Number: number}, f.ranks[0], []uint32{1})
		}
		for i := range uint64(200) {
			tell("honest", 1, i)
		}
		for i := range uint64(5000) {
			tell("rogue", 2+i%60, i)
		}
		require.Equal(t, 512, f.router.SharedPredictions())
		for i := range uint64(200) {
			f.router.Shared.Done(time.Now(), routing.PromptID{Owner: "honest", Router: 1, Number: i})
		}
		time.Sleep(time.Second)
		tell("another", 100, 1)
		require.Equal(t, 512-200+1, f.router.SharedPredictions(), "all of them were there")
	})
}
