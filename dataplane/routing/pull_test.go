package routing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// told are hints that a router gave.
type told []routing.PullHint

func (h *told) Hint(p routing.PullHint) {
	p.Tokens = append([]uint32(nil), p.Tokens...)
	*h = append(*h, p)
}

// exactly are the shelves that tiers have, and no others.
type exactly []routing.TierMatch

func (s exactly) Stored(dst []routing.TierMatch, _ routing.TierQuery) []routing.TierMatch {
	return append(dst, s...)
}

// between is a router by kv over ranks at places 1, 2 and so on, all linked.
func (f *fleet) between(h routing.PullHints, speed float64, all ...routing.TierMatch) *routing.Router {
	r := f.with(policy.KV{Options: policy.Defaults})
	r.Tiers, r.Pulls = exactly(all), h
	var places []uint32
	for i := range f.ranks {
		places = append(places, uint32(i+1))
	}
	f.at(places...)
	f.linked(r, len(places), speed)
	return r
}

// The node of the chosen rank gets a pull hint, with the source, at dispatch and not before.
func TestTheChosenNodeIsToldWhatToPull(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	ids := tokens(1, 4001)
	f.holds(1, radix.DomainKey{}, ids, 100, radix.TierGPU)
	f.ranks[1].SetExact(true)
	var h told
	r := f.between(&h, 10e9, routing.TierMatch{Place: 2, Tokens: 800, Open: true}, routing.TierMatch{Place: 3, Tokens: 3000, Kind: 7}, routing.TierMatch{Place: 1, Tokens: 3002})
	p := prompt(ids)
	p.Salt = "pepper"
	p.DP = -1
	busy := []int{0, 2} // without a tier of their own kind they cannot fetch, and are full besides
	for _, i := range busy {
		lease := f.ranks[i].Load.Begin(1 << 20)
		defer lease.End()
	}
	d, err := r.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	require.Same(t, f.ranks[1], d.Rank)
	assert.Empty(t, h, "nothing is sent for a choice that is only made")
	salted := d.Cached == 0 // events of salted prompts are another domain's
	require.True(t, salted)
	assert.Equal(t, []int{800, 2200}, []int{d.Fetch.Tier, d.Fetch.Remote})
	assert.Equal(t, 1001, d.Uncached())
	r.Withdraw(r.Dispatch(&f.scratch, p, &d))
	require.Len(t, h, 1)
	require.True(t, slices.Equal(ids[:3000], h[0].Tokens))
	h[0].Tokens = nil
	assert.Equal(t, routing.PullHint{Place: 2, From: 1, PageSize: page, TierQuery: routing.TierQuery{Model: model, Salt: "pepper"}}, h[0])

	p.Salt = ""
	d, err = r.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	r.Withdraw(r.Dispatch(&f.scratch, p, &d))
	require.Len(t, h, 2)
	assert.Equal(t, []int{400, 400, 2200, 3000}, []int{h[1].Have, d.Fetch.Tier, d.Fetch.Remote, len(h[1].Tokens)}, "what the rank has itself is not pulled")
}

// There is no hint without pages to pull, nor where the choice expects no pull.
func TestNobodyIsToldInVain(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	p := prompt(tokens(1, 4001))
	for name, set := range map[string]func(r *routing.Router){
		"its own tier has it": func(r *routing.Router) {
			r.Tiers = exactly{{Place: 1, Tokens: 4000, Open: true}, {Place: 2, Tokens: 4000, Open: true}}
		},
		"computing is faster": func(r *routing.Router) { f.linked(r, 2, 1e8) },
		"nothing measured":    func(r *routing.Router) { r.SetLinks(nil) },
		"another policy":      func(r *routing.Router) { r.SetPolicy(policy.LeastLoad{}) },
		"nobody listens":      func(r *routing.Router) { r.Pulls = nil },
	} {
		var h told
		// Of two nodes with a tier, each would pull from a third.
		r := f.between(&h, 10e9, routing.TierMatch{Place: 1, Open: true}, routing.TierMatch{Place: 2, Open: true}, routing.TierMatch{Place: 3, Tokens: 4000})
		f.linked(r, 3, 10e9)
		d, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		r.Withdraw(r.Dispatch(&f.scratch, p, &d))
		require.Len(t, h, 1, "the case %s is none", name)
		require.EqualValues(t, 3, h[0].From)
		set(r)
		d, err = r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		r.Withdraw(r.Dispatch(&f.scratch, p, &d))
		require.Len(t, h, 1, name)
	}
}

// Of a pair, the prefill rank's node is told.
func TestThePrefillNodeIsToldWhatToPull(t *testing.T) {
	f := pairFleet(t)
	var h told
	r := f.between(&h, 10e9, routing.TierMatch{Place: 1, Open: true}, routing.TierMatch{Place: 2, Open: true}, routing.TierMatch{Place: 4, Tokens: 4000})
	p := prompt(tokens(1, 4001))
	d, err := r.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	require.NotNil(t, d.Decode)
	r.Withdraw(r.Dispatch(&f.scratch, p, &d))
	require.Len(t, h, 1)
	assert.Equal(t, d.Rank.Worker.NodeNumber(), h[0].Place)
	assert.EqualValues(t, 4, h[0].From)
	assert.Equal(t, 1, d.Uncached())
}

// Fetched tokens change neither a rank's trust nor its size in the approximate index.
func TestFetchedTokensAreNotTheRanksOwn(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	r := f.between(nil, 10e9, routing.TierMatch{Place: 1, Tokens: 4000, Open: true})
	p := prompt(tokens(1, 4001))
	d, err := r.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	require.Equal(t, 4000, d.Fetch.Tier)
	for cached, want := range map[int]int{0: 0, 1000: 1000, 4000: 4000, 5000: 4000} {
		assert.Equal(t, want, d.FetchedOf(cached))
	}
	d.Cached = 600
	for cached, want := range map[int]int{0: 0, 600: 0, 1000: 400} {
		assert.Equal(t, want, d.FetchedOf(cached))
	}

	// Answers that find all of each prompt in the tier: a rank without events would look as if
	// its pool had no end.
	r = f.with(policy.KV{Options: policy.Defaults})
	r.Approx = routing.NewApproxIndex(0)
	r.Tiers = exactly{{Place: 1, Tokens: 4000, Open: true}, {Place: 2, Tokens: 4000, Open: true}}
	for _, rank := range f.ranks {
		r.Approx.Up(rank.Worker, rank.Worker.Info())
	}
	surprised := func() int64 { return r.Approx.Stats().Surprised }
	ask := func(seed uint32) {
		t.Helper()
		p := prompt(tokens(seed, 4001))
		d, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		require.Equal(t, routing.Answers, d.Source)
		r.Sent(&f.scratch, &d)
		r.Answered(&f.scratch, p, &d, 4001, 4000)
		now := time.Now()
		for range 20 {
			d.Rank.Trust.Observe(now, d.Cached, 4000)
		}
		assert.InDelta(t, 1, d.Rank.Trust.Credit(now, true), 1e-9)
	}
	for seed := range uint32(5) {
		ask(100 + seed)
	}
	assert.Zero(t, surprised())
	r.Tiers = nil
	ask(200)
	assert.EqualValues(t, 1, surprised(), "the case is none")
}
