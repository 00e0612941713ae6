package policy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Each term by itself, with numbers that can be checked by hand: 1,000 tokens a second make a
// token a millisecond, and a full batch takes 1.28 s.
func TestKVCosts(t *testing.T) {
	req := policy.Request{Tokens: 1000, Output: 100, Chunk: 1280, Answer: 10}
	tests := []struct {
		name string
		c    policy.Candidate
		want policy.Cost
	}{
		{"nothing known but the rate", policy.Candidate{}, policy.Cost{Compute: 1}},
		{"cached", policy.Candidate{Cached: 600}, policy.Cost{Compute: 0.4}},
		{"a queue", policy.Candidate{Cached: 600, Pending: 500}, policy.Cost{Compute: 0.4, Queue: 0.5}},
		{"a batch", policy.Candidate{Cached: 600, InFlight: 10}, policy.Cost{Compute: 0.4, Streams: 0.125}},
		{"host memory", policy.Candidate{Cached: 600, Host: 400}, policy.Cost{Compute: 0.4, Tier: 0.1}},
		{"disk", policy.Candidate{Cached: 600, Host: 400, Disk: 400}, policy.Cost{Compute: 0.4, Tier: 0.3}},
		{"in the making", policy.Candidate{Cached: 100, Predicted: 900}, policy.Cost{Compute: 0.1}},
		{"in the making beats a copy", policy.Candidate{Cached: 500, Host: 500, Predicted: 900}, policy.Cost{Compute: 0.1}},
		{"a copy beats what is in the making", policy.Candidate{Cached: 900, Host: 900, Predicted: 500}, policy.Cost{Compute: 0.1, Tier: 0.225}},
		// 600 + 100 of 1,000 are needed and 400 free: 300 of the 600 in use must go first, half
		// of them, 10 s for all.
		{"a full pool", policy.Candidate{Cached: 400, Pool: 1000, Used: 600}, policy.Cost{Compute: 0.6, Pool: 5, Later: 0.768}},
		{"a pool with room", policy.Candidate{Cached: 400, Pool: 2000, Used: 500}, policy.Cost{Compute: 0.6, Later: 0.32}},
		{"a full batch", policy.Candidate{Cached: 1000, InFlight: 10, MaxRunning: 10}, policy.Cost{Pool: 1}},
		{"a pool half full of other sessions", policy.Candidate{Cached: 400, Pool: 2000, Live: 1000}, policy.Cost{Compute: 0.6, Sessions: 0.3}},
		{"a pool of too many sessions", policy.Candidate{Cached: 400, Pool: 2000, Live: 9000}, policy.Cost{Compute: 0.6, Sessions: 1.2}},
		{"a busy fleet", policy.Candidate{Cached: 400, Waiting: 3}, policy.Cost{Compute: 0.6, Later: 2.1}},
		{"a fleet in deep trouble", policy.Candidate{Cached: 400, Waiting: 300}, policy.Cost{Compute: 0.6, Later: 2.7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Rate = 1000
			p := policy.KV{Options: policy.Defaults}
			got := p.Costs(nil, req, []policy.Candidate{tt.c})[0]
			assert.InDelta(t, tt.want.Total(), got.Total(), 1e-9)
			assert.InDelta(t, tt.want.Queue, got.Queue, 1e-9, "queue")
			assert.InDelta(t, tt.want.Compute, got.Compute, 1e-9, "compute")
			assert.InDelta(t, tt.want.Tier, got.Tier, 1e-9, "tier")
			assert.InDelta(t, tt.want.Pool, got.Pool, 1e-9, "pool")
			assert.InDelta(t, tt.want.Later, got.Later, 1e-9, "later")
			assert.InDelta(t, tt.want.Streams, got.Streams, 1e-9, "streams")
			assert.InDelta(t, tt.want.Sessions, got.Sessions, 1e-9, "sessions")
			assert.InDelta(t, got.Total()-got.Later-got.Streams-got.Sessions, got.TTFT(), 1e-9)
			assert.InDelta(t, got.Total(), policy.Scores(nil, p, req, []policy.Candidate{tt.c})[0], 1e-9)
		})
	}
}

// Replicas that know the same and tell each other nothing begin with ranks of their own, and
// still go where a prompt is cached.
func TestKVReplicasBeginApart(t *testing.T) {
	candidates := make([]policy.Candidate, 4)
	for i := range candidates {
		candidates[i] = policy.Candidate{Rate: 16_000, Pending: 100}
	}
	for replica := range 2 {
		p := policy.KV{Options: policy.Options{OverlapWeight: 1, Replica: replica, Replicas: 2}}
		for seed := range uint64(20) {
			choice := p.Pick(policy.Request{Tokens: 4000, Seed: seed}, candidates)
			require.Equal(t, replica, choice.Index%2)
		}
		for i := range candidates {
			warm := append([]policy.Candidate(nil), candidates...)
			warm[i].Cached = 3000
			require.Equal(t, i, p.Pick(policy.Request{Tokens: 4000}, warm).Index)
		}
		costs := p.Costs(nil, policy.Request{Tokens: 4000}, candidates)
		require.InDelta(t, 612./16_000, costs[1-replica].Queue, 1e-9)
		require.InDelta(t, 100./16_000, costs[replica].Queue, 1e-9)
	}
}

func TestKVWithoutTerms(t *testing.T) {
	req := policy.Request{Tokens: 1000}
	c := policy.Candidate{
		Rate: 1000, Cached: 500, Host: 100, Pending: 100, InFlight: 5, Waiting: 1, Pool: 1000, Used: 900, MaxRunning: 4, Live: 500,
	}
	all := policy.TermQueue | policy.TermTier | policy.TermPool | policy.TermLater | policy.TermStreams | policy.TermSessions
	got := policy.KV{Options: policy.Options{OverlapWeight: 1, Without: all}}.Costs(nil, req, []policy.Candidate{c})[0]
	assert.Equal(t, policy.Cost{Compute: 0.5}, got)
	sum := policy.Terms(0)
	for _, name := range policy.TermNames() {
		require.NotZero(t, policy.TermNamed(name), name)
		sum |= policy.TermNamed(name)
	}
	assert.Equal(t, all, sum)
	assert.Zero(t, policy.TermNamed("luck"))
}

// The score of a choice is the sum of its explained terms, for any facts and any left-out
// terms.
func TestKVScoresAreCosts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	some := func(n int64) int64 {
		if rnd.IntN(3) == 0 {
			return 0
		}
		return rnd.Int64N(n)
	}
	for range 2000 {
		candidates := make([]policy.Candidate, 1+rnd.IntN(8))
		for i := range candidates {
			c := &candidates[i]
			c.Cached = int(some(5000))
			c.Host = min(int(some(5000)), c.Cached)
			c.Disk, c.Predicted = min(int(some(5000)), c.Host), int(some(5000))
			c.Pending, c.InFlight, c.Waiting, c.MaxRunning = some(9000), some(70), some(4), some(70)
			c.Pool, c.Used, c.Rate = some(20_000), some(20_000), float64(some(20_000))
			c.Live = float32(some(60_000))
		}
		req := policy.Request{Tokens: 5000, Output: int(some(500)), Seed: rnd.Uint64(), Routers: rnd.IntN(4)}
		p := policy.KV{Options: policy.Options{OverlapWeight: 1, Without: policy.Terms(some(64)), Replicas: rnd.IntN(4)}}
		scores, costs := policy.Scores(nil, p, req, candidates), p.Costs(nil, req, candidates)
		for i := range candidates {
			require.InEpsilon(t, 1+costs[i].Total(), 1+scores[i], 1e-9, "%+v", candidates[i])
		}
		choice := p.Pick(req, candidates)
		require.InDelta(t, scores[choice.Index], choice.Cost, 1e-12)
	}
}

func TestKVPicksByRate(t *testing.T) {
	checkRules(t, policy.KV{Options: policy.Defaults}, []rule{
		{"a fast rank takes the longer queue", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 4000, Pending: 2000}, {Rate: 1000, Pending: 500},
		}, 0, ""},
		{"an unknown rate is the mean of the others", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000}, {Cached: 100}, {Rate: 1000},
		}, 1, ""},
		{"small differences are chance", policy.Request{Tokens: 10_000}, []policy.Candidate{
			{Rate: 1050}, {Rate: 1000, Cached: 16}, {Rate: 950},
		}, 1, ""},
		{"busy everywhere: the cache is worth a wait", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000, Waiting: 1}, {Rate: 1000, Cached: 800, Pending: 1500, Waiting: 1},
		}, 1, ""},
		{"somebody is free: it is not", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000}, {Rate: 1000, Cached: 800, Pending: 1700, Waiting: 1},
		}, 0, ""},
		{"a place in a full batch is dear while others have places", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000, Cached: 990, InFlight: 10, MaxRunning: 10}, {Rate: 1000, InFlight: 1, MaxRunning: 10},
		}, 1, ""},
		{"and not when nobody has", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000, Cached: 990, InFlight: 10, MaxRunning: 10}, {Rate: 1000, InFlight: 10, MaxRunning: 10},
		}, 0, ""},
		{"a pool full of running requests", policy.Request{Tokens: 1000}, []policy.Candidate{
			{Rate: 1000, Cached: 900, Pool: 1000, Used: 1000}, {Rate: 1000, Pool: 9000, Used: 1000},
		}, 1, ""},
	})
}

// A hot prefix spreads when one rank cannot carry it, and no rank starves: each request is the
// hot prompt, none ends.
func TestKVReplicatesAHotPrefix(t *testing.T) {
	const ranks, requests, tokens = 4, 400, 8000
	p := policy.KV{Options: policy.Defaults}
	candidates := make([]policy.Candidate, ranks)
	for i := range candidates {
		candidates[i].Rate = 16_000
	}
	share := make([]int, ranks)
	for i := range requests {
		at := p.Pick(policy.Request{Tokens: tokens, Seed: uint64(i)}, candidates).Index
		c := &candidates[at]
		share[at]++
		c.Pending += int64(tokens - max(c.Cached, c.Predicted))
		c.Predicted, c.InFlight, c.Waiting = tokens-100, c.InFlight+1, c.Waiting+1
	}
	for i, n := range share {
		assert.Greater(t, n, requests/ranks/2, "rank %d", i)
	}
}

func TestBacklog(t *testing.T) {
	var b policy.Backlog
	assert.Zero(t, b.Tokens(5, 1000))
	b.Sent(10, 4000)
	assert.InDelta(t, 4000, b.Tokens(10, 1000), 1e-9)
	assert.InDelta(t, 3000, b.Tokens(11, 1000), 1e-9, "a second at 1,000 tokens a second")
	assert.InDelta(t, 4000, b.Tokens(11, 0), 1e-9, "an unknown rate takes off nothing")
	b.Sent(11, 1000)
	assert.InDelta(t, 4000, b.Tokens(11, 1000), 1e-9)
	b.Begun(13.5, 4000)
	assert.InDelta(t, 1000, b.Tokens(13.5, 1000), 1e-9, "what was slower than expected counts from now")
	b.Begun(14.5, 1000)
	assert.Zero(t, b.Tokens(14.5, 1000))

	b.Reported(15, 9000, 500)
	assert.InDelta(t, 9500, b.Tokens(15, 1000), 1e-9, "others' prompts are in the report")
	b.Sent(16, 2000)
	assert.InDelta(t, 10_500, b.Tokens(16, 1000), 1e-9)
	b.Reported(17, 0, 0)
	assert.InDelta(t, 1000, b.Tokens(17, 1000), 1e-9, "own prompts count even where a report has forgotten them")
}

func TestSpeed(t *testing.T) {
	var s policy.Speed
	assert.Zero(t, s.Rate())
	s.Observe(100, 0.02)
	assert.Zero(t, s.Rate(), "100 tokens say nothing")
	s.Observe(10_000, 1.0)
	assert.InDelta(t, 10_000, s.Rate(), 1e-6, "from the start on, since no span was taken before")
	s.Observe(20_000, 1.5)
	assert.InDelta(t, 20_000, s.Rate(), 1e-6, "overheads only slow down: the faster span is right")
	s.Observe(30_000, 2.5)
	assert.InDelta(t, 19_950, s.Rate(), 1e-6, "and a slower one moves it a little")
	for i := range 1000 { // a warm rank: batches of 100 tokens that take 14 ms, of which 8 are fixed
		s.Observe(30_000+float64(i)*100, 2.5+float64(i)*0.014)
	}
	assert.Greater(t, s.Rate(), 15_000.0, "so a rank does not look slow for being warm")
	s.Observe(10, 0.001)
	assert.Zero(t, s.Rate(), "counters that went back are another process")
}

// A document on a nearly full rank is computed once more where there is room. During that,
// requests wait for no other copy while the first rank has places; where all ranks are nearly
// full, another copy gains nothing.
func TestKVReplicatesBeforeABatchIsFull(t *testing.T) {
	const document, most = 10_000, 64
	req := policy.Request{Tokens: document + 100}
	rank := func(cached int, inFlight int64) policy.Candidate {
		return policy.Candidate{Cached: cached, Predicted: cached, InFlight: inFlight, MaxRunning: most, Rate: 16_000}
	}
	making := rank(0, 1)
	making.Predicted, making.Pending, making.Waiting = document, document, 1
	for _, c := range []struct {
		name   string
		others policy.Candidate
		flight int64
		want   int
	}{
		{"half full", rank(0, 0), 32, 0},
		{"a place less than the root of all left", rank(0, 0), 61, 1},
		{"a copy is in the making", making, 61, 0},
		{"full, and a copy is in the making", making, 64 + 8, 1},
		{"the other is as full", rank(0, 61), 61, 0},
	} {
		got := named(t, "kv", policy.Defaults).Pick(req, []policy.Candidate{rank(document, c.flight), c.others})
		assert.Equal(t, c.want, got.Index, c.name)
	}
}
