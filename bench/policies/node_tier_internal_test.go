package policies

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tiersConfig has two nodes where a token takes 1 ms to compute, 1 ms to copy to the GPU, and 2
// ms over the network.
func tiersConfig() Config {
	return Config{Workers: 2, PageSize: 4, CacheTokens: 400, Service: Service{PrefillTokensPerSecond: 1000, HostTokensPerSecond: 1000}, Tiers: Tiers{TierTokens: 4000, LinkTokensPerSecond: 500}}.withDefaults()
}

// Each step of these requests by hand: a prompt of 41 tokens has 10 pages that a cache may
// serve, and a batch costs 8 ms besides.
func TestPullsByHand(t *testing.T) {
	ask := func(at time.Duration, id uint64) Request {
		return Request{At: at, Prompt: []Segment{{id, 41}}, Output: 1}
	}
	ms := time.Millisecond
	trace := []Request{ // round robin: to nodes 0, 1, 0 and so on
		ask(0, 1),
		ask(10*time.Second, 1), // from node 0
		ask(20*time.Second, 1),
		ask(30*time.Second, 2),
		ask(40*time.Second, 2),       // from node 1
		ask(40*time.Second+10*ms, 3), // new
		ask(40*time.Second+20*ms, 2), // joins the pull
		ask(50*time.Second, 4),
		ask(60*time.Second, 4), // waits for node 1,
		ask(60*time.Second+1*ms, 1),
		ask(60*time.Second+1*ms, 5), // and the next one does not wait for it
	}
	run, err := simulate(context.Background(), newPlan(trace, 4, 1, false), tiersConfig(), "round-robin", func(int) {})
	require.NoError(t, err)
	type step struct {
		cached, hosted int
		ttft           time.Duration
	}
	want := []step{
		{0, 0, 49 * ms},
		{0, 40, 129 * ms},
		{40, 0, 9 * ms},
		{0, 0, 49 * ms},
		{0, 40, 170 * ms},
		{0, 0, 49 * ms},
		{0, 40, 150 * ms},
		{0, 0, 49 * ms},
		{0, 40, 129 * ms},
		{40, 0, 9 * ms},
		{0, 0, 49 * ms},
	}
	for i, w := range want {
		task := &run.tasks[i]
		assert.Equal(t, w, step{task.cached, task.hosted, (task.first - task.arrived).duration()}, "request %d", i)
	}
	assert.EqualValues(t, 120, run.result().PulledTokens)

	cfg := tiersConfig()
	cfg.LinkTokensPerSecond = 0
	run, err = simulate(context.Background(), newPlan(trace, 4, 1, false), cfg, "round-robin", func(int) {})
	require.NoError(t, err)
	assert.Zero(t, run.result().PulledTokens)
	assert.Equal(t, 49*ms, (run.tasks[1].first - run.tasks[1].arrived).duration(), "without a network it is computed")
	cfg.NodeWorkers = 2
	run, err = simulate(context.Background(), newPlan(trace, 4, 1, false), cfg, "round-robin", func(int) {})
	require.NoError(t, err)
	assert.Equal(t, step{0, 40, 49 * ms}, step{run.tasks[1].cached, run.tasks[1].hosted, (run.tasks[1].first - run.tasks[1].arrived).duration()}, "of one node")
}

// For any sizes, each prompt token is computed or found once; tiers keep their bounds, and the
// same run gives the same result.
func TestTiersAddUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 32))
	pulled, hosted := int64(0), int64(0)
	for seed := range uint64(60) {
		cfg := tinyConfig(seed)
		cfg.Workers, cfg.NodeWorkers = 1+rnd.IntN(4), 1+rnd.IntN(3)
		cfg.TierTokens, cfg.HostTokens = 4*(1+rnd.IntN(400)), 200*rnd.IntN(3)
		cfg.LinkTokensPerSecond = []float64{0, 100, 700, 1e6}[rnd.IntN(4)]
		cfg.Routers = 1 + rnd.IntN(2)
		p := newPlan(tiny(seed, 80), cfg.PageSize, 1, false)
		for _, name := range []string{"kv", "round-robin", "approx", Greedy} {
			play := func() *run {
				s, err := newRun(p, cfg, name, func(int) {})
				require.NoError(t, err)
				s.observe = func(*worker) {
					for _, d := range s.tiers.byNode {
						require.LessOrEqual(t, d.cache.pages, d.pool)
					}
				}
				require.NoError(t, s.loop(context.Background()))
				return s
			}
			s := play()
			r, computed := s.result(), int64(0)
			for _, w := range s.workers {
				computed += w.counts.prefilled
			}
			require.Equal(t, len(p.jobs), r.Requests+r.Refused)
			require.Equal(t, r.PromptTokens, r.HitTokens+computed, "%s, seed %d", name, seed)
			for i := range s.tasks {
				if task := &s.tasks[i]; task.worker >= 0 {
					require.GreaterOrEqual(t, task.first, task.ready)
				}
			}
			if cfg.LinkTokensPerSecond == 0 || len(s.tiers.byNode) == 1 {
				require.Zero(t, r.PulledTokens)
			}
			pulled, hosted = pulled+r.PulledTokens, hosted+r.HostTokens
			require.Equal(t, r, play().result())
		}
	}
	require.Greater(t, pulled, int64(1000))
	require.Greater(t, hosted, 2*pulled)
}

// A router with a tier directory finds more there, and pulls less, than one without.
func TestKnowingTiersPays(t *testing.T) {
	trace, err := Synthetic("conversations", 1, 2000)
	require.NoError(t, err)
	cfg := Config{Workers: 12, CacheTokens: 60_000, Tiers: Tiers{TierTokens: 2_000_000}, Variants: Variants{Study: []string{"tiers"}}}
	for _, link := range []float64{0, 20_000} {
		cfg.LinkTokensPerSecond = link
		r, err := Simulate(context.Background(), "conversations", trace, cfg, []string{"kv"}, nil)
		require.NoError(t, err)
		knows, blind := r.Results[0], r.Results[1]
		assert.Less(t, knows.TTFT.Mean, blind.TTFT.Mean, "link %v", link)
		if link == 0 {
			assert.Greater(t, knows.Hits, blind.Hits)
		} else {
			assert.Less(t, knows.PulledTokens, blind.PulledTokens)
		}
	}
	cfg.TierTokens = 0
	r, err := Simulate(context.Background(), "conversations", trace, cfg, []string{"kv"}, nil)
	require.NoError(t, err)
	r.Results[1].Policy = r.Results[0].Policy
	assert.Equal(t, r.Results[0], r.Results[1], "without tiers there is nothing to know")
	assert.True(t, slices.Contains(Ablations(), "tiers"))
}

func TestBadTiers(t *testing.T) {
	for _, change := range []func(c *Config){
		func(c *Config) { c.TierTokens = -1 }, func(c *Config) { c.TierTokens = 3 }, func(c *Config) { c.NodeWorkers = -1 },
		func(c *Config) { c.LinkTokensPerSecond = -1 },
	} {
		cfg := tiersConfig()
		change(&cfg)
		assert.ErrorIs(t, cfg.check(), ErrConfig)
	}
}
