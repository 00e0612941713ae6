package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// legs are that many idle ranks of each role, all on one node.
func legs(prefill, decode int) *policy.PairCandidates {
	l := &policy.PairCandidates{
		Prefill: make([]policy.Candidate, prefill), Decode: make([]policy.Candidate, decode),
		PrefillHosts: make([]uint32, prefill), DecodeHosts: make([]uint32, decode), Link: policy.UsualLink,
	}
	for i := range l.Prefill {
		l.Prefill[i] = policy.Candidate{ID: uint64(i) + 1, Rate: 1000}
	}
	for i := range l.Decode {
		l.Decode[i] = policy.Candidate{ID: uint64(i) + 1001, Pool: 100_000, MaxRunning: 100}
	}
	return l
}

// Each term by itself, with numbers that can be checked by hand.
func TestDecodeCosts(t *testing.T) {
	req := policy.Request{Tokens: 1000, Output: 100, Answer: 10}
	const same, other = 0.001, 0.004 // seconds of 1,000 tokens
	tests := []struct {
		name string
		node uint32
		c    policy.Candidate
		want policy.DecodeCost
	}{
		{"nothing known", 0, policy.Candidate{}, policy.DecodeCost{Transfer: same}},
		{"another node", 1, policy.Candidate{}, policy.DecodeCost{Transfer: other}},
		{"a part is there", 0, policy.Candidate{Cached: 600}, policy.DecodeCost{Transfer: 0.4 * same}},
		{"more is there than there is", 0, policy.Candidate{Cached: 1600}, policy.DecodeCost{}},
		{"a pool half full", 0, policy.Candidate{Pool: 10_000, Used: 5000}, policy.DecodeCost{Transfer: same, Step: 1.25}},
		{"a batch half full", 0, policy.Candidate{InFlight: 50, MaxRunning: 100}, policy.DecodeCost{Transfer: same, Step: 2.5}},
		{"both", 0, policy.Candidate{Pool: 10_000, Used: 5000, InFlight: 10, MaxRunning: 100}, policy.DecodeCost{Transfer: same, Step: 1.5}},
		{"a batch of unknown size", 0, policy.Candidate{InFlight: 64}, policy.DecodeCost{Transfer: same, Step: 1.25}},
		// 1,000 + 100 are needed and 500 free: 600 of 5,000 must come back, 10 s for all.
		{"no room", 0, policy.Candidate{Pool: 5500, Used: 5000}, policy.DecodeCost{Transfer: same, Room: 1.2, Step: 2.5 * 5000 / 5500}},
		{"room for what it lacks", 0, policy.Candidate{Pool: 5500, Used: 5000, Cached: 600}, policy.DecodeCost{Transfer: 0.4 * same, Step: 2.5 * 5000 / 5500}},
		{"no place", 0, policy.Candidate{InFlight: 10, MaxRunning: 10}, policy.DecodeCost{Transfer: same, Room: 1, Step: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := legs(1, 0)
			l.Decode, l.DecodeHosts = []policy.Candidate{tt.c}, []uint32{tt.node}
			l.Link = policy.Link{Same: same / 1000, Other: other / 1000}
			got := policy.DecodeCosts(nil, req, l, 0)[0]
			assert.InDelta(t, tt.want.Transfer, got.Transfer, 1e-12, "transfer")
			assert.InDelta(t, tt.want.Room, got.Room, 1e-12, "room")
			assert.InDelta(t, tt.want.Step, got.Step, 1e-12, "step")
			assert.InDelta(t, got.Transfer+got.Room, got.TTFT(), 1e-12)
			_, decode := policy.PickPair(policy.KV{Options: policy.Defaults}, req, l)
			assert.InDelta(t, got.Total(), decode.Cost, 1e-12)
		})
	}
}

func TestPickPair(t *testing.T) {
	kv := policy.KV{Options: policy.Defaults}
	tests := []struct {
		name            string
		change          func(l *policy.PairCandidates)
		prefill, decode int
	}{
		{"the cache decides the prefill", func(l *policy.PairCandidates) { l.Prefill[1].Cached = 900; l.Decode[0].Used = 50_000 }, 1, 1},
		{"the queue too", func(l *policy.PairCandidates) { l.Prefill[1].Pending = 5000; l.Decode[1].InFlight = 20 }, 0, 0},
		{"requests at a prefill rank delay nothing by themselves", func(l *policy.PairCandidates) {
			l.Prefill[0].InFlight, l.Prefill[0].MaxRunning, l.Prefill[0].Cached = 50, 10, 100
			l.Decode[0].Used = 50_000
		}, 0, 1},
		{"reserved tokens count", func(l *policy.PairCandidates) { l.Prefill[0].Cached = 500; l.Decode[1].Used = 3000 }, 0, 0},
		{"a prefix that is held is not sent again", func(l *policy.PairCandidates) {
			l.Link = policy.Link{Same: 1e-3, Other: 1e-3}
			l.Prefill[0].Cached, l.Decode[1].Cached = 500, 900
		}, 0, 1},
		{"the near decode rank", func(l *policy.PairCandidates) {
			l.Link.Other = 1e-4
			l.Prefill[1].Cached = 500
			l.PrefillHosts[1], l.DecodeHosts[1] = 1, 1
		}, 1, 1},
		{"the prefill rank near a free decode rank", func(l *policy.PairCandidates) {
			l.Link.Other = 1e-3 // a second for the prompt
			l.Prefill[0].Cached = 300
			l.PrefillHosts[1], l.DecodeHosts[1] = 1, 1
			l.Decode[0].Used, l.Decode[0].InFlight = 99_000, 90
		}, 1, 1},
		{"a far one where the near one is full", func(l *policy.PairCandidates) {
			l.Prefill[0].Cached = 900
			l.PrefillHosts[1], l.DecodeHosts[1] = 1, 1
			l.Decode[0].Used = 99_900
		}, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				l := legs(2, 2)
				tt.change(l)
				prefill, decode := policy.PickPair(kv, policy.Request{Tokens: 1000, Seed: seed}, l)
				require.Equal(t, []int{tt.prefill, tt.decode}, []int{prefill.Index, decode.Index})
				require.NotEmpty(t, prefill.Reason)
				require.NotEmpty(t, decode.Reason)
			}
		})
	}
}

// measure gives legs links that were measured, some of them broken and some places unknown.
func measure(rnd *rand.Rand, l *policy.PairCandidates) {
	const places = 5
	l.Links = policy.NewLinks(places)
	for from := range uint32(places) {
		for to := range uint32(places) {
			l.Links.Set(from+1, to+1, policy.Hop{Speed: float64(rnd.IntN(3)) * rnd.Float64() * 20e9, Broken: rnd.IntN(5) == 0})
		}
	}
	for range l.Prefill {
		l.PrefillNodes = append(l.PrefillNodes, uint32(rnd.IntN(places+2)))
	}
	for range l.Decode {
		l.DecodeNodes = append(l.DecodeNodes, uint32(rnd.IntN(places+2)))
	}
	for i, place := range l.PrefillNodes {
		if place != 0 { // a place is on one node
			l.PrefillHosts[i] = place
		}
	}
	for j, place := range l.DecodeNodes {
		if place != 0 {
			l.DecodeHosts[j] = place
		}
	}
}

// The choice in P + D steps is the choice among all P x D pairs.
func TestPickPairIsTheBestOfAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	some := func(n int64) int64 { return rnd.Int64N(n) * rnd.Int64N(2) }
	p := policy.KV{Options: policy.Options{OverlapWeight: 1}}
	for range 2000 {
		l := legs(1+rnd.IntN(9), 1+rnd.IntN(9))
		l.Link = policy.Link{Same: rnd.Float64() * 1e-4, Other: 1e-4 + rnd.Float64()*1e-3}
		if rnd.IntN(4) == 0 {
			l.Link.Other = l.Link.Same
		}
		for i := range l.Prefill {
			c := &l.Prefill[i]
			c.Cached, c.Pending, c.Rate, c.Waiting = int(some(5000)), some(9000), float64(some(20_000)), some(3)
			c.Weight = []float64{0, 0.5, rnd.Float64()}[rnd.IntN(3)]
			l.PrefillHosts[i] = uint32(rnd.IntN(4))
		}
		for j := range l.Decode {
			c := &l.Decode[j]
			c.Cached, c.Used, c.InFlight, c.MaxRunning = int(some(5000)), some(100_000), some(100), some(100)
			c.Weight = []float64{0, 0.5, rnd.Float64()}[rnd.IntN(3)]
			l.DecodeHosts[j] = uint32(rnd.IntN(6))
		}
		if rnd.IntN(2) == 0 {
			measure(rnd, l)
		}
		req := policy.Request{Tokens: 5000, Output: int(some(500)), Seed: rnd.Uint64()}
		prefill, decode := policy.PickPair(p, req, l)
		total := func(i, j int) float64 {
			return policy.PrefillCosts(nil, p, req, l.Prefill)[i].Total() + policy.DecodeCosts(nil, req, l, i)[j].Total()
		}
		best := math.Inf(1)
		for i := range l.Prefill {
			for j := range l.Decode {
				best = min(best, total(i, j))
			}
		}
		require.InEpsilon(t, 1+best, 1+total(prefill.Index, decode.Index), 1e-9)
		require.InEpsilon(t, 1+best, 1+prefill.Cost+decode.Cost, 1e-9, "the costs of both are that of the pair")
		require.InEpsilon(t, 1+best, 1+policy.PrefillScores(nil, p, req, l)[prefill.Index], 1e-9)
	}
}

// Equal ranks share the requests, and the same seed repeats a choice, with any policy.
func TestPickPairTies(t *testing.T) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := policy.New(name, policy.Defaults)
			require.NoError(t, err)
			l := legs(4, 4)
			var prefills, decodes [4]int
			for i := range 4000 {
				req := policy.Request{Tokens: 1000, Seed: uint64(i), Turn: uint64(i)}
				prefill, decode := policy.PickPair(p, req, l)
				again, second := policy.PickPair(p, req, l)
				require.Equal(t, []policy.Choice{prefill, decode}, []policy.Choice{again, second})
				prefills[prefill.Index]++
				decodes[decode.Index]++
			}
			if name == "approx" { // the first of the least loaded, as in its source
				return
			}
			for i := range 4 {
				assert.Greater(t, prefills[i], 500, "prefill %d", i)
				assert.Greater(t, decodes[i], 500, "decode %d", i)
			}
		})
	}
}

func TestPickPairSticky(t *testing.T) {
	p := policy.Sticky{Policy: policy.KV{Options: policy.Defaults}}
	l := legs(3, 3)
	l.Prefill[0].Cached = 500
	for _, tt := range []struct {
		home uint64
		want int
	}{{0, 0}, {3, 2}, {99, 0}} {
		prefill, decode := policy.PickPair(p, policy.Request{Tokens: 1000, SessionRank: tt.home}, l)
		assert.Equal(t, tt.want, prefill.Index, "home %d", tt.home)
		assert.Less(t, decode.Index, 3)
	}
}

func TestPickPairSamples(t *testing.T) {
	p := policy.KV{Options: policy.Options{OverlapWeight: 1, Temperature: 2}}
	l := legs(2, 1)
	l.Prefill[0].Cached = 900
	seen := [2]int{}
	for seed := range uint64(200) {
		prefill, _ := policy.PickPair(p, policy.Request{Tokens: 1000, Seed: seed}, l)
		seen[prefill.Index]++
	}
	assert.Greater(t, seen[0], seen[1])
	assert.Positive(t, seen[1])
}

func TestAlone(t *testing.T) {
	const least = 256
	kv := policy.KV{Options: policy.Defaults}
	tests := []struct {
		name  string
		p     policy.Policy
		req   policy.Request
		alone policy.Candidate
		pair  func(l *policy.PairCandidates)
		want  string
	}{
		{"short", kv, policy.Request{Tokens: 200}, policy.Candidate{Rate: 1000}, nil, "alone: what it lacks is too short for a pair"},
		{"short of what it lacks", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000, Cached: 800}, nil, "alone: what it lacks is too short for a pair"},
		{"what is in the making counts", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000, Predicted: 800}, nil, "alone: what it lacks is too short for a pair"},
		{"short, but there is no room", kv, policy.Request{Tokens: 200}, policy.Candidate{Rate: 1000, MaxRunning: 4, InFlight: 8}, nil, ""},
		{"short, with other policies", policy.RoundRobin{}, policy.Request{Tokens: 200}, policy.Candidate{Rate: 1000}, nil, "alone: what it lacks is too short for a pair"},
		{"long, a free pair", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000, Pending: 1000}, nil, ""},
		{"long, a free worker", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000}, func(l *policy.PairCandidates) { l.Prefill[0].Pending = 500 }, "alone: its first token comes before a pair's"},
		{"long, no room to decode", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000}, func(l *policy.PairCandidates) { l.Decode[0].Used = 100_000 }, "alone: its first token comes before a pair's"},
		{"its speed is not known: as a pair's", kv, policy.Request{Tokens: 1000}, policy.Candidate{Pending: 100}, nil, ""},
		{"the transfer decides", kv, policy.Request{Tokens: 1000}, policy.Candidate{Rate: 1000}, func(l *policy.PairCandidates) { l.Prefill[0].Cached = 1 }, "alone: its first token comes before a pair's"},
		{"a session's rank", policy.Sticky{Policy: kv}, policy.Request{Tokens: 1000, SessionRank: 7}, policy.Candidate{ID: 7, Rate: 1000, Pending: 1000}, nil, "its session's rank, alone"},
		{"a session's prefill rank", policy.Sticky{Policy: kv}, policy.Request{Tokens: 100, SessionRank: 1}, policy.Candidate{ID: 7, Rate: 1000}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := legs(1, 1)
			if tt.pair != nil {
				tt.pair(l)
			}
			assert.Equal(t, tt.want, policy.Alone(tt.p, tt.req, []policy.Candidate{tt.alone}, 0, l, 0, 0, least))
		})
	}
}
