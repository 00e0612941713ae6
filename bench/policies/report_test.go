package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func simulate(t *testing.T, family string, n int, cfg policies.Config, names ...string) *policies.Report {
	t.Helper()
	trace, err := policies.Synthetic(family, 1, n)
	require.NoError(t, err)
	r, err := policies.Simulate(t.Context(), family, trace, cfg, names, nil)
	require.NoError(t, err)
	return r
}

// kv against the all-knowing router, on every workload, at two loads and cache sizes. The
// simulation is deterministic; the margin is for floating point on other machines, and for
// changes elsewhere.
func TestKVIsNearTheBest(t *testing.T) {
	names, _ := policies.Workloads()
	for _, cfg := range []policies.Config{{}, {Rate: 1.6, CacheTokens: 300_000}} {
		for _, family := range names {
			r := simulate(t, family, 2000, cfg, "kv", policies.Greedy)
			kv, best := r.Results[0], r.Results[1]
			what := fmt.Sprintf("%s: kv %v, greedy %v, rate %v", family, kv.TTFT, best.TTFT, cfg.Rate)
			assert.Less(t, kv.TTFT.Mean, best.TTFT.Mean*115/100, what)
			assert.Less(t, kv.TTFT.P99, best.TTFT.P99*130/100+50*time.Millisecond, what)
			assert.LessOrEqual(t, kv.Hits, r.Trace.Bound+1e-9, what)
		}
	}
}

// Under load kv must beat sglang-router's rule and round robin, and replicas that tell
// each other what they send must lose less than replicas that do not.
func TestKVBeatsItsPeersUnderLoad(t *testing.T) {
	cfg := policies.Config{Workers: 6, CacheTokens: 300_000}
	one := simulate(t, "bursts", 4000, cfg, "kv", "approx", "round-robin")
	kv, approx, turns := one.Results[0], one.Results[1], one.Results[2]
	assert.Less(t, kv.TTFT.Mean, approx.TTFT.Mean*99/100)
	assert.Less(t, kv.TTFT.Mean, turns.TTFT.Mean*60/100)
	small := simulate(t, "documents", 4000, policies.Config{CacheTokens: 200_000}, "kv", "approx")
	assert.Less(t, small.Results[0].TTFT.Mean, small.Results[1].TTFT.Mean*90/100, "a tree that does not know of evictions")
	cfg = policies.Config{CacheTokens: 200_000, Rate: 2, Replicas: policies.Replicas{Routers: 4, Share: policies.ShareGossip}}
	told := simulate(t, "documents", 4000, cfg, "kv").Results[0]
	cfg.Share = policies.SharePolls
	apart := simulate(t, "documents", 4000, cfg, "kv").Results[0]
	assert.Less(t, told.TTFT.Mean, apart.TTFT.Mean*95/100, "what replicas do not know of each other costs")
}

func TestReport(t *testing.T) {
	cfg := policies.Config{Workers: 3, HostTokens: 1000, Speeds: []float64{1, 2}, Replicas: policies.Replicas{Routers: 2}, Variants: policies.Variants{Study: []string{"queue", "load"}, Queues: policies.Queues()}}
	names := policies.Names()
	assert.Subset(t, names, append(policy.Names(), "dualmap", policies.Greedy))
	trace, err := policies.Synthetic("conversations", 1, 300)
	require.NoError(t, err)
	trace = append(trace, policies.Request{Prompt: []policies.Segment{{ID: 1 << 50, Tokens: 2_000_000}}, Output: 1})
	last := map[string]int{}
	r, err := policies.Simulate(t.Context(), "conversations", trace, cfg, names, func(name string, done, total int) {
		assert.Equal(t, 301, total)
		assert.GreaterOrEqual(t, done, last[name]%301)
		last[name] = done
	})
	require.NoError(t, err)
	for _, name := range names {
		assert.Equal(t, 301, last[name], name)
	}
	require.NoError(t, r.Advise(t.Context(), trace, time.Second, nil))
	var table bytes.Buffer
	require.NoError(t, r.Table(&table))
	for _, name := range append(names, "kv without queue", "kv without load", "kv, fifo queue", "kv, depth-first queue") {
		assert.Contains(t, table.String(), " "+name+" ")
	}
	for _, want := range []string{
		"300 requests", "1 requests are longer than a worker's KV pool", "Recommendation", "2 routers that tell each other nothing",
		"replica", "[1 2]",
	} {
		assert.Contains(t, strings.ReplaceAll(table.String(), "301 requests", "300 requests"), want)
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back policies.Report
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r.Results[0].TTFT, back.Results[0].TTFT)
	assert.NotEqual(t, policies.Greedy, r.Best().Policy)
}

func TestAdviceOnOneNode(t *testing.T) {
	trace, err := policies.Synthetic("zipf", 1, 200)
	require.NoError(t, err)
	r, err := policies.Simulate(t.Context(), "zipf", trace, policies.Config{Workers: 1, Rate: 0.1}, nil, nil)
	require.NoError(t, err)
	require.NoError(t, r.Advise(t.Context(), trace, 10*time.Second, nil))
	advice := strings.Join(r.Advice, "\n")
	assert.Contains(t, advice, "One node is enough")
	assert.Contains(t, advice, "nothing to choose")
	require.NoError(t, r.Advise(t.Context(), trace, time.Millisecond, nil))
	assert.Contains(t, strings.Join(r.Advice, "\n"), "No number of workers")
}

func TestSimulateRefuses(t *testing.T) {
	trace, err := policies.Synthetic("zipf", 1, 5)
	require.NoError(t, err)
	for _, cfg := range []policies.Config{
		{Workers: -1},
		{Workers: 1 << 20},
		{Replicas: policies.Replicas{Routers: -1}},
		{CacheTokens: 1},
		{CacheTokens: 1 << 40},
		{HostTokens: -1},
		{Rate: -1},
		{Rate: 1e9},
		{Events: policies.Events{EventDelay: -1}},
		{Poll: -1},
		{Speeds: []float64{0}},
		{Replicas: policies.Replicas{Share: "telepathy"}},
		{Ablate: []string{"luck"}},
		{Variants: policies.Variants{Study: []string{"luck"}}},
		{Pools: policies.Pools{Prefill: 8}},
		{Pools: policies.Pools{Prefill: -1}},
		{Service: policies.Service{ChunkedPrefill: 3}},
		{Service: policies.Service{PrefillTokensPerSecond: -1}},
		{Pools: policies.Pools{TransferTokensPerSecond: -1}},
	} {
		_, err := policies.Simulate(t.Context(), "x", trace, cfg, []string{"kv"}, nil)
		require.ErrorIs(t, err, policies.ErrConfig, "%+v", cfg)
	}
	_, err = policies.Simulate(t.Context(), "x", trace, policies.Config{}, []string{"best"}, nil)
	require.ErrorIs(t, err, policy.ErrUnknown)
	_, err = policies.Simulate(t.Context(), "x", nil, policies.Config{}, []string{"kv"}, nil)
	require.Error(t, err)
}
