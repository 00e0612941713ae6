package policy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// scale is other units of time and of tokens. Powers of two scale floating point exactly.
type scale struct {
	time   float64
	tokens int
}

var scales = []scale{{0.25, 1}, {1, 8}, {0.25, 8}, {64, 1}}

func (s scale) request(r policy.Request) policy.Request {
	r.Tokens, r.Output, r.Chunk = r.Tokens*s.tokens, r.Output*s.tokens, r.Chunk*s.tokens
	r.Answer *= s.time
	return r
}

func (s scale) candidates(all []policy.Candidate) (out []policy.Candidate) {
	n := int64(s.tokens)
	for _, c := range all {
		c.Cached, c.Predicted, c.Host, c.Disk = c.Cached*s.tokens, c.Predicted*s.tokens, c.Host*s.tokens, c.Disk*s.tokens
		c.Pending, c.Pool, c.Used = c.Pending*n, c.Pool*n, c.Used*n
		c.Tier, c.Remote, c.Live = c.Tier*int32(n), c.Remote*int32(n), c.Live*float32(n)
		c.Rate, c.FullRate = c.Rate*float64(n)/s.time, c.FullRate*float64(n)/s.time
		c.TierTime, c.RemoteTime, c.Age = c.TierTime*float32(s.time), c.RemoteTime*float32(s.time), c.Age*s.time
		out = append(out, c)
	}
	return out
}

func (s scale) pairs(l policy.PairCandidates) policy.PairCandidates {
	l.Prefill, l.Decode = s.candidates(l.Prefill), s.candidates(l.Decode)
	l.Link.Same *= s.time / float64(s.tokens)
	l.Link.Other *= s.time / float64(s.tokens)
	return l
}

// anyFleet has all facts, some of them unknown.
func anyFleet(rnd *rand.Rand, n int, rates bool) []policy.Candidate {
	all := randomFleet(rnd, n)
	for i := range all {
		c := &all[i]
		c.Tier, c.Remote = int32(rnd.IntN(3000)), int32(rnd.IntN(3000))
		c.TierTime, c.RemoteTime = rnd.Float32(), rnd.Float32()
		if rates {
			c.Rate = 1000 + float64(rnd.IntN(20_000))
		} else {
			c.Rate, c.FullRate = 0, 0
		}
	}
	return all
}

// All times divided by four, or all tokens times eight, give the same choices and costs that are
// the same number of seconds, to the digit: with every term alone, of single ranks, of pairs, of
// replicas, with and without known rates, chunks and answers.
func TestKVIsFreeOfScale(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	for range 4000 {
		rates := rnd.IntN(3) > 0
		req := policy.Request{
			Tokens: 1 + rnd.IntN(9000), Output: rnd.IntN(500), Chunk: 64 * (1 + rnd.IntN(200)), Seed: rnd.Uint64(), Stored: rates && rnd.IntN(2) == 0,
			Answer: rnd.Float64() * 30 * float64(rnd.IntN(2)),
		}
		if !rates && req.Answer == 0 {
			req.Answer = 1 // where nothing is known, nothing can be compared with times of links
		}
		l := policy.PairCandidates{
			Prefill: anyFleet(rnd, 1+rnd.IntN(8), rates), Decode: anyFleet(rnd, 1+rnd.IntN(8), rates), Link: policy.UsualLink,
		}
		for range l.Prefill {
			l.PrefillHosts = append(l.PrefillHosts, rnd.Uint32N(3))
		}
		for range l.Decode {
			l.DecodeHosts = append(l.DecodeHosts, rnd.Uint32N(3))
		}
		p := policy.KV{Options: policy.Options{OverlapWeight: 1, Without: policy.Terms(rnd.IntN(64) & rnd.IntN(64)), Replicas: rnd.IntN(4)}}
		choice := p.Pick(req, l.Prefill)
		prefill, decode := policy.PickPair(p, req, &l)
		for _, s := range scales {
			other, m := s.request(req), s.pairs(l)
			again := p.Pick(other, m.Prefill)
			require.Equal(t, choice.Index, again.Index)
			require.Equal(t, choice.Cost*s.time, again.Cost) //nolint:testifylint // To the digit.
			first, second := policy.PickPair(p, other, &m)
			require.Equal(t, []int{prefill.Index, decode.Index}, []int{first.Index, second.Index})
			require.Equal(t, decode.Cost*s.time, second.Cost) //nolint:testifylint // To the digit.
		}
	}
}

// A rank's rate and backlog are learnt alike at any scale.
func TestSpeedAndBacklogAreFreeOfScale(t *testing.T) {
	for _, s := range scales {
		rnd, n := rand.New(rand.NewPCG(23, 24)), float64(s.tokens)
		a, b := policy.Speed{Chunk: 1024}, policy.Speed{Chunk: 1024 * s.tokens}
		var x, y policy.Backlog
		tokens, busy, now := 0.0, 0.0, 0.0
		for range 1000 {
			tokens, busy, now = tokens+float64(rnd.IntN(900)), busy+rnd.Float64(), now+rnd.Float64()
			a.Observe(tokens, busy)
			b.Observe(tokens*n, busy*s.time)
			require.Equal(t, a.Rate()*n/s.time, b.Rate()) //nolint:testifylint // To the digit.
			x.Sent(now, 100)
			y.Sent(now*s.time, 100*n)
			if rnd.IntN(3) == 0 {
				x.Reported(now, 300, 10)
				y.Reported(now*s.time, 300*n, 10*n)
			}
			x.Begun(now, 90)
			y.Begun(now*s.time, 90*n)
			require.Equal(t, x.Tokens(now+1, a.Rate())*n, y.Tokens((now+1)*s.time, b.Rate())) //nolint:testifylint // To the digit.
		}
	}
}
