package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// naiveFleet is the facts of all candidates together, for the oracle.
type naiveFleet struct{ rate, later, roomy, idle float64 }

func places(c policy.Candidate) (free float64, scarce bool) {
	free = float64(c.MaxRunning - c.InFlight - 1)
	return free, c.MaxRunning > 0 && (free < 0 || free*free < float64(c.MaxRunning))
}

func naiveSurvey(all []policy.Candidate) (f naiveFleet) {
	var rates []float64
	busy, fewest, making := 0.0, 4.0, false
	for _, c := range all {
		rate := c.Rate
		if c.Weight > 0 && c.Weight < 1 && c.FullRate > rate {
			rate = c.FullRate
		}
		if rate > 0 {
			rates = append(rates, rate)
		}
		if c.Waiting > 0 {
			busy++
		}
		fewest = min(fewest, float64(c.Waiting))
		if _, scarce := places(c); !scarce {
			f.roomy += 1 / float64(len(all))
		}
		making = making || (c.Predicted > c.Cached && c.InFlight < c.MaxRunning)
	}
	f.rate = 20 * 8192 / 10. // an answer takes 10 s in these tests
	if len(rates) > 0 {
		f.rate = 0
		for _, r := range rates {
			f.rate += r / float64(len(rates))
		}
	}
	if making {
		f.roomy = 0
	}
	f.later, f.idle = busy/float64(len(all))/2+fewest, 1-busy/float64(len(all))
	return f
}

// naiveCost is the rule in words, for one rank: everything that takes time takes as much longer
// as the rank is slower.
func naiveCost(f naiveFleet, req policy.Request, c policy.Candidate) float64 {
	share, rate := 1.0, f.rate
	if c.Weight > 0 && c.Weight < 1 {
		share = c.Weight
	}
	switch had := c.FullRate; {
	case share < 1:
		if had == 0 {
			had = f.rate
		}
		if rate = share * had; c.Rate > 0 && c.Rate < rate {
			rate = c.Rate
		}
	case c.Rate > 0 && math.Abs(c.Rate/f.rate-1) >= 0.2:
		rate = c.Rate
	}
	all := float64(req.Tokens)
	compute, copied := max(all-float64(c.Cached), 0), 0.25*float64(c.Host-c.Disk)+0.75*float64(c.Disk)
	if made := max(all-float64(c.Predicted), 0); c.Predicted > c.Cached && made <= compute+copied {
		compute, copied = made, 0
	}
	wait := 0.0
	if over := compute + float64(req.Output) + float64(c.Used-c.Pool); c.Pool > 0 && c.Used > 0 && over > 0 {
		wait = 10 * (over/float64(c.Used) + f.idle*float64(c.Waiting)/float64(max(c.InFlight-c.Waiting, 1)))
	}
	if free, scarce := places(c); scarce {
		most := float64(c.MaxRunning)
		wait += 10 / most * (max(-free, 0) + 2*f.roomy*(math.Sqrt(most)-free))
	}
	others := f.later + float64(c.InFlight)/32
	if c.Pool > 0 {
		others += min(float64(c.Live)/float64(c.Pool), 2)
	}
	cost := (float64(c.Pending)+copied+compute*(1+others))/rate + wait/share
	if c.Used > 0 && c.Pool > 0 {
		cost += 8192 / f.rate * float64(c.Used) / float64(c.Pool)
	}
	return cost
}

// randomFleet has some ranks that have lost speed, or that could fetch.
func randomFleet(rnd *rand.Rand, n int) []policy.Candidate {
	some := func(n int64) int64 { return rnd.Int64N(n) * rnd.Int64N(2) }
	all := make([]policy.Candidate, n)
	for i := range all {
		c := &all[i]
		c.Cached = int(some(5000))
		c.Host = min(int(some(5000)), c.Cached)
		c.Disk, c.Predicted = min(int(some(5000)), c.Host), int(some(5000))
		c.Pending, c.InFlight, c.Waiting, c.MaxRunning = some(9000), some(70), some(4), some(70)
		c.Pool, c.Used, c.Rate = some(20_000), some(20_000), float64(some(20_000))
		c.Live = float32(some(60_000))
		c.Weight = []float64{0, 1, 0.05, 0.5, 0.9, rnd.Float64()}[rnd.IntN(6)]
		if c.Weight > 0 && c.Weight < 1 {
			c.FullRate = float64(some(30_000))
		}
	}
	return all
}

// With weights, Pick follows the rule in words.
func TestKVWithWeightsIsTheRule(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	p := policy.KV{Options: policy.Options{OverlapWeight: 1}}
	for range 5000 {
		all := randomFleet(rnd, 1+rnd.IntN(9))
		req := policy.Request{Tokens: 5000, Output: rnd.IntN(500), Answer: 10, Seed: rnd.Uint64()}
		f, best := naiveSurvey(all), math.Inf(1)
		for _, c := range all {
			best = min(best, naiveCost(f, req, c))
		}
		got := p.Pick(req, all)
		require.InEpsilon(t, 1+best, 1+naiveCost(f, req, all[got.Index]), 1e-9, "%+v", all)
		require.InEpsilon(t, 1+best, 1+got.Cost, 1e-9, "the cost that is told")
		costs := p.Costs(nil, req, all)
		for i, c := range all {
			require.InEpsilon(t, 1+naiveCost(f, req, c), 1+costs[i].Total(), 1e-9, "%+v", c)
			require.GreaterOrEqual(t, costs[i].Health, 0.0)
			if c.Weight == 0 || c.Weight == 1 {
				require.Zero(t, costs[i].Health)
			}
		}
	}
}

// Less speed never makes a rank cheaper.
func TestKVLessWeightIsNoBetter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	p := policy.KV{Options: policy.Defaults}
	for range 2000 {
		all := randomFleet(rnd, 2+rnd.IntN(5))
		req := policy.Request{Tokens: 5000}
		c := &all[0]
		c.Weight, c.FullRate = 0.9, float64(rnd.IntN(2)*20_000)
		before := policy.Scores(nil, p, req, all)[0]
		for _, w := range []float64{0.7, 0.5, 0.1, 0.05} {
			c.Weight = w
			after := policy.Scores(nil, p, req, all)[0]
			require.GreaterOrEqual(t, after, before-1e-12, "%+v", c)
			before = after
		}
	}
}

func TestKVPicksByWeight(t *testing.T) {
	const rate = 1000
	checkRules(t, policy.KV{Options: policy.Defaults}, []rule{
		{"the whole one", policy.Request{Tokens: 1000}, []policy.Candidate{{Rate: rate, Weight: 0.5, FullRate: rate}, {Rate: rate}}, 1, ""},
		{"half of the speed, a third of the work", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: rate, Weight: 0.5, FullRate: rate, Cached: 670}, {Rate: rate},
		}, 0, ""},
		{"a tenth less is not chance, as it would be among rates", policy.Request{Tokens: 10_000}, []policy.Candidate{
			{Rate: 900, Weight: 0.9, FullRate: rate}, {Rate: rate},
		}, 1, ""},
		{"it was twice as fast: half of it is as good, and it has more", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000, Weight: 0.5, FullRate: 2000, Cached: 10}, {Rate: 1000},
		}, 0, ""},
		{"what it measures counts once, not again by its weight", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 500, Weight: 0.5, FullRate: 1000, Cached: 550}, {Rate: 1000},
		}, 0, ""},
		{"clocks that fell further than the weight says", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 250, Weight: 0.5, FullRate: 1000, Cached: 700}, {Rate: 1000},
		}, 1, ""},
		{"the queue of a slow rank takes longer", policy.Request{Tokens: 100}, []policy.Candidate{
			{Rate: rate, Weight: 0.5, FullRate: rate, Pending: 600}, {Rate: rate, Pending: 900},
		}, 1, ""},
		{"no rate is known of anybody", policy.Request{Tokens: 1000}, []policy.Candidate{{Weight: 0.5}, {}}, 1, ""},
	})
}

func TestLoadCountsByWeight(t *testing.T) {
	for _, name := range []string{"least-load", "power-of-two"} {
		checkRules(t, named(t, name, policy.Options{}), []rule{
			{"half of the speed carries half", policy.Request{}, []policy.Candidate{{InFlight: 4, Weight: 0.5}, {InFlight: 8}}, 1, ""},
			{"and no less", policy.Request{}, []policy.Candidate{{InFlight: 3, Weight: 0.5}, {InFlight: 8}}, 0, ""},
			{"idle, the whole one", policy.Request{}, []policy.Candidate{{Weight: 0.9}, {}}, 1, ""},
			{"a weight of 1 is none", policy.Request{}, []policy.Candidate{{InFlight: 2, Weight: 1}, {InFlight: 1, Weight: 0}}, 1, ""},
		})
	}
}

// A pair's decode rank that is slow takes longer for each step, and a prefill rank for the
// prompt.
func TestPairsByWeight(t *testing.T) {
	kv, req := policy.KV{Options: policy.Defaults}, policy.Request{Tokens: 1000, Output: 100, Answer: 10}
	l := legs(2, 2)
	l.Prefill[0].Weight, l.Prefill[0].FullRate, l.Decode[1].Weight = 0.5, 1000, 0.5
	for seed := range uint64(20) {
		req.Seed = seed
		prefill, decode := policy.PickPair(kv, req, l)
		require.Equal(t, []int{1, 0}, []int{prefill.Index, decode.Index})
	}
	costs := policy.DecodeCosts(nil, req, l, 0)
	assert.InDelta(t, 0, costs[0].Step, 1e-12)
	assert.InDelta(t, 5, costs[1].Step, 1e-12, "an empty batch takes 5 s for an answer, and twice that at half speed")
	l.Decode[0].Used, l.Decode[0].InFlight = 99_500, 99
	_, decode := policy.PickPair(kv, req, l)
	assert.Equal(t, 1, decode.Index, "slow and empty before whole and full")
	whole := legs(1, 1)
	whole.Decode[0].Used = 99_500
	room := policy.DecodeCosts(nil, req, whole, 0)[0].Room
	whole.Decode[0].Weight = 0.25
	assert.InDelta(t, 4*room, policy.DecodeCosts(nil, req, whole, 0)[0].Room, 1e-12)
}

// Exclusions precede the policy: it picks among the remaining candidates, of which there is at
// least one.
func TestPoliciesPickAmongTheRest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for _, name := range policy.Names() {
		p := named(t, name, policy.Defaults)
		for range 200 {
			all := randomFleet(rnd, 1+rnd.IntN(6))
			req := policy.Request{Tokens: 5000, Seed: rnd.Uint64(), Turn: rnd.Uint64(), SessionRank: uint64(rnd.IntN(9))}
			before := slices.Clone(all)
			got := p.Pick(req, all)
			require.True(t, got.Index >= 0 && got.Index < len(all), "%s: %+v", name, got)
			require.Equal(t, before, all, "%s changed its candidates", name)
			require.Equal(t, got, p.Pick(req, all), "%s is not pure", name)
		}
	}
}
