package policies

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// choices are the workers that a run's requests went to, in order.
func choices(t *testing.T, trace []Request, cfg Config) (out []int32) {
	t.Helper()
	cfg = cfg.withDefaults()
	require.NoError(t, cfg.check())
	s, err := simulate(t.Context(), newPlan(trace, cfg.PageSize, cfg.Rate, false), cfg, "kv", func(int) {})
	require.NoError(t, err)
	for i := range s.tasks {
		out = append(out, s.tasks[i].worker)
	}
	return out
}

func sameChoices(t *testing.T, name string, want, got []int32) {
	t.Helper()
	require.Len(t, got, len(want), name)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("%s: request %d goes to worker %d, want %d", name, i, got[i], want[i])
			return
		}
	}
}

// scaleConfigs are deployments that meet each term of the cost: full pools and batches, queues at
// the router, host memory, unequal speeds, replicas and pairs.
func scaleConfigs() map[string]Config {
	small := Config{
		Workers: 4, CacheTokens: 65_536, Seed: 5, Poll: 100 * time.Millisecond,
		Service: Service{MaxRunning: 16, DecodePerToken: 16 * time.Nanosecond, HostTokensPerSecond: 156_250},
	}
	host, speeds, routers, gossip, pairs, queued, tier := small, small, small, small, small, small, small
	host.HostTokens = 262_144
	speeds.Speeds = []float64{0.5, 0.5, 1}
	routers.Routers, routers.Share = 4, SharePolls
	gossip.Routers, gossip.Share = 2, ShareGossip
	pairs.Prefill, pairs.TransferTokensPerSecond = 2, 78_125
	queued.queue = DepthFirst
	tier.TierTokens, tier.LinkTokensPerSecond = 131_072, 78_125
	return map[string]Config{
		"": small, "host": host, "speeds": speeds, "routers": routers, "gossip": gossip, "pairs": pairs, "queue": queued, "tier": tier,
	}
}

// scaleTrace is chats that grow, some shared prompts and some prompts of their own; arrivals and
// lengths are such that both scales stay whole numbers.
func scaleTrace(t *testing.T, answers bool) []Request {
	t.Helper()
	trace, err := Synthetic("conversations", 7, 1200)
	require.NoError(t, err)
	for i := range trace {
		r := &trace[i]
		r.At = (r.At / 2).Round(4096 * time.Nanosecond)
		if !answers {
			r.Output = 1
		}
	}
	return trace
}

// With all times divided by four, each request goes to the same worker: steps, speeds, gaps,
// polls, events, messages, links and deadlines.
func TestChoicesAreFreeOfTime(t *testing.T) {
	trace := scaleTrace(t, true)
	fast := slices.Clone(trace)
	for i := range fast {
		fast[i].At /= 4
	}
	for name, cfg := range scaleConfigs() {
		cfg = cfg.withDefaults()
		quick := cfg
		s := &quick.Service
		s.PrefillTokensPerSecond, s.HostTokensPerSecond = 4*s.PrefillTokensPerSecond, 4*s.HostTokensPerSecond
		s.PrefillBase, s.DecodeBase, s.DecodePerRequest, s.DecodePerToken = s.PrefillBase/4, s.DecodeBase/4, s.DecodePerRequest/4, s.DecodePerToken/4
		quick.TransferTokensPerSecond, quick.LinkTokensPerSecond = 4*cfg.TransferTokensPerSecond, 4*cfg.LinkTokensPerSecond
		quick.Poll, quick.EventDelay, quick.Hop = cfg.Poll/4, cfg.EventDelay/4, cfg.Hop/4
		quick.gathered, quick.deadline = cfg.gathered/4, cfg.deadline/4
		want := choices(t, trace, cfg)
		sameChoices(t, name, want, choices(t, fast, quick))
		require.Greater(t, len(slices.Compact(slices.Clone(want))), len(want)/4, "%s: the choices are no choices", name)
	}
}

// With all tokens times eight, prompts, pages, pools, chunks and speeds, each request goes to the
// same worker. Answers have one token: an engine makes more one at a time at any scale.
func TestChoicesAreFreeOfTokens(t *testing.T) {
	trace := scaleTrace(t, false)
	long := slices.Clone(trace)
	for i := range long {
		r := &long[i]
		r.Prompt = slices.Clone(r.Prompt)
		for k := range r.Prompt {
			r.Prompt[k].Tokens *= 8
		}
	}
	for name, cfg := range scaleConfigs() {
		cfg = cfg.withDefaults()
		large := cfg
		s := &large.Service
		s.PrefillTokensPerSecond, s.HostTokensPerSecond, s.ChunkedPrefill = 8*s.PrefillTokensPerSecond, 8*s.HostTokensPerSecond, 8*s.ChunkedPrefill
		large.PageSize, large.CacheTokens, large.HostTokens, large.TierTokens = 8*cfg.PageSize, 8*cfg.CacheTokens, 8*cfg.HostTokens, 8*cfg.TierTokens
		large.TransferTokensPerSecond, large.LinkTokensPerSecond = 8*cfg.TransferTokensPerSecond, 8*cfg.LinkTokensPerSecond
		sameChoices(t, name, choices(t, trace, cfg), choices(t, long, large))
	}
}
