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
		got := routing.SharedTokens(len(a.Tokens), am, len(b.Tokens), bm)
		require.LessOrEqual(t, got, common, "%d and %d tokens", len(a.Tokens), len(b.Tokens))
		require.Equal(t, got, routing.SharedTokens(len(b.Tokens), bm, len(a.Tokens), am))
		if slices.Equal(a.Tokens, b.Tokens) {
			require.Equal(t, common, got)
		} else {
			require.GreaterOrEqual(t, got, common-max(63, common/9), "of %d", common)
		}
		for _, other := range [][]uint32{
			routing.AppendFingerprints(nil, "another", b), routing.AppendFingerprints(nil, "m", &routing.Prompt{Tokens: b.Tokens, LoRA: "x"}),
			routing.AppendFingerprints(nil, "m", &routing.Prompt{Tokens: b.Tokens, Salt: "x"}),
		} {
			require.Zero(t, routing.SharedTokens(len(a.Tokens), am, len(b.Tokens), other), "another model, adapter or salt")
		}
	}
	require.Equal(t, 41, routing.CountFingerprints(8192+64))
	require.Less(t, routing.CountFingerprints(1<<31), routing.MaxFingerprints)
}

// FuzzCommon: marks that no router makes do no harm, and are compared as a plain loop does.
func FuzzCommon(f *testing.F) {
	f.Add(3, []byte("abc"), 3, []byte("abd"))
	f.Fuzz(func(t *testing.T, n int, a []byte, m int, b []byte) {
		wide := func(from []byte) (marks []uint32) {
			for _, c := range from[:min(len(from), routing.MaxFingerprints)] {
				marks = append(marks, uint32(c))
			}
			return marks
		}
		am, bm := wide(a), wide(b)
		got, equal := routing.SharedTokens(n, am, m, bm), 0
		for equal < min(len(am), len(bm)) && am[equal] == bm[equal] {
			equal++
		}
		switch shorter := min(len(am), len(bm)); {
		case shorter == 0:
			require.Zero(t, got)
		case n == m && len(am) == len(bm) && am[len(am)-1] == bm[len(bm)-1]:
			require.Equal(t, n, got)
		case equal >= shorter-1: // the last one of a prompt is no place of the other
			require.Equal(t, place(shorter-1), got)
		case slices.IsSorted(differences(am, bm, shorter-1)): // as of common prompts: once they differ, they do so to the end
			require.Equal(t, place(equal), got)
		}
	})
}

// place is how many tokens so many equal marks stand for.
func place(equal int) int {
	if equal == 0 {
		return 0
	}
	return routing.FingerprintAt(equal - 1)
}

// differences holds 1 where two lists differ.
func differences(a, b []uint32, n int) []int {
	all := make([]int, n)
	for i := range all {
		if a[i] != b[i] {
			all[i] = 1
		}
	}
	return all
}

// herald tells other routers at once of the prompts of one.
type herald struct {
	of     uint64 // the router that tells
	others []*routing.Router
	next   uint64
	ranks  *worker.Registry
}

func (*herald) Sending() bool { return true }

func (o *herald) Routers() int { return len(o.others) + 1 }

func (o *herald) Tell(rank uint64, tokens int, fingerprints []uint32) uint64 {
	o.next++
	for _, r := range o.ranks.Snapshot().Ranks { // one rank for all here: none counts its own as another's
		if r.IDHash() == rank && r.Load.PeersInFlight() == 0 {
			r.Load.ReplacePeer(time.Now(), worker.RouterLoad{}, worker.RouterLoad{InFlight: 1, Waiting: 1})
		}
	}
	for _, r := range o.others {
		r.Shared.Add(time.Now(), routing.PromptID{Router: o.of, Number: o.next}, rank, tokens, fingerprints)
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
	one.Peers = &herald{of: 1, others: []*routing.Router{two, three}, ranks: f.registry}
	two.Peers = &herald{of: 2, others: []*routing.Router{one, three}, ranks: f.registry}
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

// TestExpectedIsBounded: no history of prompts makes more than 512 entries, and routers that
// are forgotten leave none.
func TestExpectedIsBounded(t *testing.T) {
	var x routing.SharedPredictions
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Unix(1000, 0)
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(2)) * time.Millisecond)
		by := routing.PromptID{Router: rng.Uint64N(4), Number: rng.Uint64N(5000)}
		switch rng.IntN(3) {
		case 0, 1:
			x.Add(now, by, rng.Uint64(), rng.IntN(1000), make([]uint32, rng.IntN(300)))
		case 2:
			x.Done(now, by)
		}
		require.LessOrEqual(t, x.Len(), 512)
	}
	require.Positive(t, x.Len())
	for router := range uint64(4) {
		x.Forget(router)
	}
	require.Zero(t, x.Len())
}

// TestExpectedEnds: a prompt counts for a minute, and one that is done for 100 ms.
func TestExpectedEnds(t *testing.T) {
	start := time.Unix(1000, 0)
	count := func(x *routing.SharedPredictions, at time.Duration) (n int) {
		return x.Find(start.Add(at), 64, []uint32{1})
	}
	by := routing.PromptID{Router: 1, Number: 7}
	var x routing.SharedPredictions
	x.Add(start, by, 1, 64, []uint32{1})
	require.Equal(t, []int{1, 0}, []int{count(&x, 50*time.Second), count(&x, 70*time.Second)})
	x.Done(start, by)
	require.Equal(t, []int{1, 0}, []int{count(&x, 50*time.Millisecond), count(&x, 150*time.Millisecond)})
	x.Add(start, by, 1, 5, nil)
	require.Equal(t, 1, x.Len(), "a prompt without marks is none")
}

// TestExpectedIsShared: a router that tells of prompts without end, by any number of processes, drops
// its own.
func TestExpectedIsShared(t *testing.T) {
	var x routing.SharedPredictions
	now := time.Unix(1000, 0)
	for i := range uint64(200) {
		x.Add(now, routing.PromptID{Owner: "honest", Router: 1, Number: i}, 1, 64, []uint32{1})
	}
	for i := range uint64(5000) {
		x.Add(now, routing.PromptID{Owner: "rogue", Router: 2 + i%60, Number: i}, 2, 64, []uint32{2})
	}
	require.Equal(t, 512, x.Len())
	require.Equal(t, []int{1, 1}, []int{x.Find(now, 64, []uint32{1}), x.Find(now, 64, []uint32{2})})
	for i := range uint64(200) {
		x.Done(now, routing.PromptID{Owner: "honest", Router: 1, Number: i})
	}
	now = now.Add(time.Second)
	x.Add(now, routing.PromptID{Owner: "another"}, 1, 64, []uint32{1})
	require.Equal(t, 512-200+1, x.Len(), "all of them were there")
}
