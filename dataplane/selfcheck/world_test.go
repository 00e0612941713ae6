package selfcheck

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

const block = 16

// traffic is requests as clients make them; prompts are blocks.
type traffic []call

type call struct {
	at     time.Duration
	ids    []uint64
	output int
}

// sessions are conversations, new ones at random times: each prompt has the one before, an answer
// and some more.
func sessions(seed uint64, span time.Duration, perSecond float64, system, grow, output, turns int, think time.Duration) (all traffic) {
	rng := rand.New(rand.NewPCG(seed, 1))
	next := 1 << 32 * (seed + 1)
	fresh := func(dst []uint64, n int) []uint64 {
		for range n {
			next++
			dst = append(dst, next)
		}
		return dst
	}
	shared := fresh(nil, system/block)
	for at := time.Duration(0); at < span; at += time.Duration(rng.ExpFloat64() / perSecond * float64(time.Second)) {
		ids, t := slices.Clone(shared), at
		for range 1 + rng.IntN(2*turns) {
			ids = fresh(ids, 1+rng.IntN(2*grow/block))
			out := 1 + rng.IntN(2*output)
			all = append(all, call{t, slices.Clone(ids), out})
			ids = fresh(ids, out/block)
			if t += time.Duration((0.5 + rng.ExpFloat64()) * float64(think)); t > span {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b call) int { return int(a.at - b.at) })
	return all
}

// requests are the traffic as the simulator takes it.
func (t traffic) requests() (all []policies.Request) {
	for _, c := range t {
		r := policies.Request{At: c.at, Output: c.output}
		for _, id := range c.ids {
			r.Prompt = append(r.Prompt, policies.Segment{ID: id, Tokens: block})
		}
		all = append(all, r)
	}
	return all
}

// log plays the traffic under a policy and returns the entries that a router would write.
func (t traffic) log(tb testing.TB, start time.Time, cfg policies.Config, choice Choice) (all []accesslog.Entry) {
	tb.Helper()
	if cfg.Options == (policy.Options{}) {
		cfg.Options = policy.Defaults
	}
	cfg.Options.Without = choice.Without
	p, err := policies.NewPlayer(t.requests(), cfg, nil)
	require.NoError(tb, err)
	out, err := p.Play(tb.Context(), choice.Policy, nil)
	require.NoError(tb, err)
	for i, c := range t {
		require.False(tb, out[i].Refused)
		all = append(all, accesslog.Entry{
			Arrived: start.Add(c.at), TTFT: out[i].TTFT, Took: out[i].Latency, Status: 200, Input: len(c.ids) * block, Output: c.output,
			Block: block, IDs: c.ids, Model: "m", Cached: out[i].Cached, Streamed: true,
		})
	}
	return all
}

// ranks is the cluster that a router would measure in front of simulated workers.
func ranks(cfg policies.Config) cluster {
	c := cluster{page: block, routers: 1}
	for range cfg.Workers {
		c.ranks = append(c.ranks, rank{rate: cmp.Or(cfg.Service.PrefillTokensPerSecond, 16_000), pool: int64(cfg.CacheTokens), running: 64})
	}
	return c
}
