package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

func TestExplainedGPUs(t *testing.T) {
	cost := &admin.ExplainedCost{}
	overlap := &admin.ExplainedOverlap{}
	e := &admin.Explained{
		Winner: "http://b:1", Why: "because", Overruled: "the least bad are used (draining)",
		Ranks: []admin.ExplainedRank{
			{ID: "http://a:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "healthy", Weight: 1}},
			{
				ID: "http://b:1", State: "ready", Winner: true, Cost: cost, Overlap: &admin.ExplainedOverlap{Tier: 64, Remote: 128}, Weight: 0.55,
				GPUs: &admin.GPUHealthStatus{State: "degraded", Weight: 0.55, NoTP: true, Reasons: []string{"clocks at 55 %", "17 of 18 NVLinks up"}, Age: 1.2},
			},
			{
				ID: "http://c:1", State: "ready", Excluded: "has dead GPUs (XID 79), and others are fit",
				GPUs: &admin.GPUHealthStatus{State: "dead", Weight: 1, Reasons: []string{"XID 79"}, Age: 3},
			},
			{ID: "http://d:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "dead", Weight: 1, Doubted: true}},
			{ID: "http://e:1", State: "ready", Cost: cost, Overlap: overlap},
			{ID: "http://f:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "unknown", Weight: 1}},
			{
				ID: "http://g:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1,
				GPUs: &admin.GPUHealthStatus{State: "unknown", Weight: 1, Reasons: []string{"nothing was heard of its GPUs for 32s; the last was: dead"}, Age: 32},
			},
		},
	}
	var out strings.Builder
	require.NoError(t, writeExplained(&out, e))
	for _, line := range []string{
		"the least bad are used (draining)",
		"http://b:1: GPUs are degraded, 55 % of the speed is left, not to be used together: clocks at 55 %; 17 of 18 NVLinks up (1 s ago)",
		"http://b:1: could fetch 64 tokens from the KV tier of its node, and 128 behind them from a peer's",
		"http://c:1: GPUs are dead: XID 79 (3 s ago)",
		"http://g:1: GPUs are unknown: nothing was heard of its GPUs for 32s; the last was: dead (32 s ago)",
		"http://c:1 is no candidate: it has dead GPUs (XID 79), and others are fit",
	} {
		assert.Contains(t, out.String(), line+"\n")
	}
	assert.Contains(t, out.String(), "http://d:1: GPUs are dead, which is not believed")
	assert.NotContains(t, out.String(), "http://a:1: GPUs", "nothing to say of who is well")
	assert.NotContains(t, out.String(), "http://e:1: GPUs", "nor where nothing is known")
	assert.NotContains(t, out.String(), "http://f:1: GPUs", "nor where nothing is known")
}
