package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// A prefix of 2 GB, 16,384 tokens of 128 KiB, against computing it at 16,000 tokens a second:
// fetched over links of more than 2.1 GB/s, computed over slower ones.
func TestFetchOrCompute(t *testing.T) {
	const tokens, rate = 16_384, 16_000
	p := policy.KV{Options: policy.Options{OverlapWeight: 1, Without: policy.TermLater}}
	req := policy.Request{Tokens: tokens + 1, Stored: true}
	for _, tt := range []struct {
		speed float64 // bytes a second
		want  policy.Cost
	}{
		{12.5e9, policy.Cost{Compute: 1. / rate, Tier: tokens * policy.UsualBytes / 12.5e9}},
		{2.2e9, policy.Cost{Compute: 1. / rate, Tier: tokens * policy.UsualBytes / 2.2e9}},
		{2.0e9, policy.Cost{Compute: (tokens + 1.) / rate}},
		{1e8, policy.Cost{Compute: (tokens + 1.) / rate}},
	} {
		c := policy.Candidate{Rate: rate, Fetch: policy.Fetch{Remote: tokens, RemoteTime: float32(tokens * policy.UsualBytes / tt.speed)}}
		got := p.Costs(nil, req, []policy.Candidate{c})[0]
		assert.InDelta(t, tt.want.Compute, got.Compute, 1e-6, "%v", tt.speed)
		assert.InDelta(t, tt.want.Tier, got.Tier, 1e-6, "%v", tt.speed)
		// And so a rank next to the tier wins or loses against one that has half of it.
		half := policy.Candidate{Rate: rate, Cached: tokens / 2}
		want := 1
		if got.Total() < float64(tokens/2+1)/rate {
			want = 0
		}
		assert.Equal(t, want, p.Pick(req, []policy.Candidate{c, half}).Index, "%v", tt.speed)
	}
}

// naiveStored is the lowest cost among all combinations of cached, predicted and fetched
// tokens.
func naiveStored(f naiveFleet, req policy.Request, c policy.Candidate) float64 {
	without := c
	without.Tier, without.Remote = 0, 0
	best := naiveCost(f, req, without)
	without.Predicted = 0
	for _, option := range [][2]float64{{0, 0}, {float64(c.Tier), float64(c.TierTime)}, {float64(c.Tier + c.Remote), float64(c.TierTime) + float64(c.RemoteTime)}} {
		shorter := without
		shorter.Cached += int(option[0])
		best = min(best, naiveCost(f, req, shorter)+option[1])
	}
	return best
}

// For any cached, predicted and fetchable tokens, each candidate costs its best combination,
// and Pick takes the best candidate.
func TestKVWithTiersIsTheBestOfAllWays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	p := policy.KV{Options: policy.Options{OverlapWeight: 1, Without: policy.TermPool}}
	fetched := 0
	for range 5000 {
		all := randomFleet(rnd, 1+rnd.IntN(6))
		for i := range all {
			c := &all[i]
			c.Pool, c.MaxRunning, c.Host, c.Disk = 0, 0, 0, 0 // roomWait counts computed tokens too
			if c.Predicted > 0 {
				c.Predicted = max(c.Predicted, c.Cached)
			}
			left := max(4999-c.Cached, 0)
			if rnd.IntN(2) == 0 {
				c.Tier = int32(rnd.IntN(left + 1))
				c.TierTime = float32(c.Tier) * rnd.Float32() * 2e-4
			}
			if rnd.IntN(2) == 0 {
				c.Remote = int32(rnd.IntN(left - int(c.Tier) + 1))
				c.RemoteTime = float32(c.Remote) * rnd.Float32() * 2e-4
			}
		}
		req := policy.Request{Tokens: 5000, Seed: rnd.Uint64(), Stored: true, Answer: 10}
		f, best := naiveSurvey(all), math.Inf(1)
		costs := p.Costs(nil, req, all)
		for i, c := range all {
			want := naiveStored(f, req, c)
			require.InEpsilon(t, 1+want, 1+costs[i].Total(), 1e-6, "%+v", c)
			best = min(best, want)
			if costs[i].Tier > 0 {
				fetched++
			}
		}
		got := p.Pick(req, all)
		require.InEpsilon(t, 1+best, 1+naiveStored(f, req, all[got.Index]), 1e-6)
		require.InEpsilon(t, 1+best, 1+got.Cost, 1e-6)
	}
	require.Greater(t, fetched, 1000, "the case is not met")
}

func TestLinksBetween(t *testing.T) {
	l := policy.NewLinks(2)
	l.Set(1, 2, policy.Hop{Speed: 5e9})
	l.Set(2, 1, policy.Hop{Broken: true})
	for _, bad := range [][2]uint32{{0, 1}, {1, 0}, {3, 1}, {1, 3}, {0, 0}, {9, 9}} {
		l.Set(bad[0], bad[1], policy.Hop{Speed: 1})
		assert.Equal(t, policy.Hop{}, l.Between(bad[0], bad[1]), "%v", bad)
	}
	assert.Equal(t, policy.Hop{Speed: 5e9}, l.Between(1, 2))
	assert.Equal(t, policy.Hop{Broken: true}, l.Between(2, 1))
	assert.Equal(t, policy.Hop{}, l.Between(1, 1))
	var none *policy.Links
	assert.Equal(t, policy.Hop{}, none.Between(1, 2))
}

// place gives legs places and links between them.
func place(l *policy.PairCandidates, places int, prefill, decode []uint32) {
	l.PrefillNodes, l.DecodeNodes, l.Links = prefill, decode, policy.NewLinks(places)
	l.PrefillHosts, l.DecodeHosts = append([]uint32(nil), prefill...), append([]uint32(nil), decode...)
}

func TestPairsByMeasuredLinks(t *testing.T) {
	kv, req := policy.KV{Options: policy.Defaults}, policy.Request{Tokens: 8000}
	two := func() *policy.PairCandidates {
		l := legs(2, 2)
		place(l, 4, []uint32{1, 2}, []uint32{3, 4})
		return l
	}
	pick := func(l *policy.PairCandidates) string {
		a, b := policy.PickPair(kv, req, l)
		return fmt.Sprint(a.Index, b.Index)
	}
	l := two()
	for from := uint32(1); from <= 2; from++ {
		for to := uint32(3); to <= 4; to++ {
			l.Links.Set(from, to, policy.Hop{Speed: 1e9}) // a second for 8,000 tokens
		}
	}
	l.Links.Set(2, 3, policy.Hop{Speed: 40e9})
	assert.Equal(t, "1 0", pick(l), "the fast link")
	assert.InDelta(t, 8000*policy.UsualBytes/40e9, policy.DecodeCosts(nil, req, l, 1)[0].Transfer, 1e-9)
	l.Bytes = 10 * policy.UsualBytes
	assert.InDelta(t, 80_000*policy.UsualBytes/40e9, policy.DecodeCosts(nil, req, l, 1)[0].Transfer, 1e-9, "of a model with more bytes a token")

	l = two()
	l.Links.Set(1, 3, policy.Hop{Broken: true})
	l.Links.Set(1, 4, policy.Hop{Broken: true})
	l.Prefill[0].Cached = 7999
	assert.Equal(t, "1", pick(l)[:1], "a prefill rank that reaches nobody, whatever it has cached")
	l.Links.Set(2, 4, policy.Hop{Broken: true})
	l.Decode[0].InFlight = 90
	assert.Equal(t, "1 0", pick(l), "the only pair whose link works")
	l.Links.Set(2, 3, policy.Hop{Broken: true})
	assert.Equal(t, "0 1", pick(l), "where all are broken, the best is tried")

	l = two()
	l.Links.Set(1, 3, policy.Hop{Broken: true})
	l.Links.Set(2, 3, policy.Hop{Broken: true})
	for _, name := range policy.Names() {
		for seed := range uint64(20) {
			_, decode := policy.PickPair(named(t, name, policy.Defaults), policy.Request{Tokens: 100, Seed: seed, Turn: seed}, l)
			assert.Equal(t, 1, decode.Index, name)
		}
	}
}

// Fetched agrees with the cost: it is nothing where computing, or a predicted prompt, is
// cheaper.
func TestFetchedIsWhatWasCounted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 20))
	p := policy.KV{Options: policy.Options{OverlapWeight: 1}}
	var kinds [3]int
	for range 2000 {
		all := randomFleet(rnd, 1+rnd.IntN(6))
		for i := range all {
			c := &all[i]
			c.Host, c.Disk = 0, 0
			left := max(4999-c.Cached, 0)
			c.Tier, c.Remote = int32(rnd.IntN(left/2+1)), int32(rnd.IntN(left/2+1))
			c.TierTime, c.RemoteTime = float32(c.Tier)*rnd.Float32()*2e-4, float32(c.Remote)*rnd.Float32()*2e-4
		}
		req := policy.Request{Tokens: 5000, Stored: true}
		costs := p.Costs(nil, req, all)
		for i := range all {
			tier, remote := p.Fetched(req, all, i)
			took := 0.0
			switch {
			case remote > 0:
				require.EqualValues(t, all[i].Tier, tier)
				require.EqualValues(t, all[i].Remote, remote)
				took = float64(all[i].TierTime) + float64(all[i].RemoteTime)
				kinds[2]++
			case tier > 0:
				require.EqualValues(t, all[i].Tier, tier)
				took = float64(all[i].TierTime)
				kinds[1]++
			default:
				kinds[0]++
			}
			require.InDelta(t, took, costs[i].Tier, 1e-6)
			sticky, far := policy.Sticky{Policy: p}.Fetched(req, all, i)
			require.Equal(t, [2]int{tier, remote}, [2]int{sticky, far})
		}
	}
	for kind, n := range kinds {
		require.Greater(t, n, 50, "kind %d is not met", kind)
	}
	all := []policy.Candidate{{Fetch: policy.Fetch{Tier: 100, Remote: 100}}}
	tier, remote := p.Fetched(policy.Request{Tokens: 5000}, all, 0)
	require.Zero(t, tier+remote, "a request of which no tier was asked")
	tier, remote = policy.Sticky{Policy: policy.LeastLoad{}}.Fetched(policy.Request{Tokens: 5000, Stored: true}, all, 0)
	require.Zero(t, tier+remote, "a policy that does not look")
}
