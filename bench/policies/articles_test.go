package policies_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

func TestArticles(t *testing.T) {
	steps := 0
	a, err := policies.RunArticles(t.Context(), 1, func(done, total int) {
		steps++
		assert.Equal(t, steps, done)
		assert.GreaterOrEqual(t, total, done)
	})
	require.NoError(t, err)
	curve := func(name string) []float64 {
		i := slices.IndexFunc(a.Curves, func(c policies.ArticleCurve) bool { return c.Policy == name })
		require.GreaterOrEqual(t, i, 0, name)
		return a.Curves[i].Hits
	}
	for _, c := range a.Curves {
		assert.True(t, slices.IsSorted(c.Hits), "%s: more room never hurts here", c.Policy)
		for i, h := range c.Hits {
			assert.LessOrEqual(t, h, curve("offline optimum")[i]+1e-9, c.Policy)
		}
	}
	// Measured with another program for 3, 5, 7, 10 and 13 prefixes a node. Draws differ by 0.035.
	for name, want := range map[string][]float64{
		"round-robin":      {0.214, 0.321, 0.404, 0.502, 0.574},
		"least-load":       {0.214, 0.320, 0.406, 0.502, 0.576},
		"staleness":        {0.575, 0.695, 0.795, 0.919, 0.995},
		"kv":               {0.575, 0.695, 0.795, 0.919, 0.995},
		"offline optimum":  {0.759, 0.860, 0.920, 0.972, 0.995},
		"kv, LFU eviction": {0.675, 0.788, 0.862, 0.944, 0.995},
	} {
		for i, h := range want {
			assert.InDelta(t, h, curve(name)[i], 0.05, "%s at %d", name, a.Capacities[i])
		}
	}
	// Caches that never evict, as in the published code: each of 4 nodes misses each of 50
	// prompts once, or one of them does.
	last := len(a.Capacities) - 1
	assert.InDelta(t, 0.980, curve("round-robin")[last], 1e-9)
	assert.InDelta(t, 0.995, curve("staleness")[last], 1e-9)
	needs := map[string]float64{}
	for _, p := range a.Published {
		needs[p.Row] = p.Needs
	}
	assert.InDelta(t, 3.2, needs["round robin"], 0.7)
	assert.InDelta(t, 9.9, needs["KV-aware and engine"], 1)
	assert.Greater(t, needs["engine only"], 25.0)
	var table bytes.Buffer
	require.NoError(t, a.Table(&table))
	for _, want := range []string{
		"calculated 94.39 %, simulated 94.39 %", "no one capacity", "simulated 32.25 x", "calculated 2,931", "published 74 %",
	} {
		assert.Contains(t, table.String(), want)
	}
	// Every calculation that can be played gives the same when it is.
	computed := []float64{94.391, 20, 5, 2931, 32.25, 7, 74}
	require.Len(t, a.Exact, len(computed))
	for i, x := range a.Exact {
		assert.InDelta(t, computed[i], x.Computed, 0.001, x.What)
		if x.Simulated != nil {
			assert.InDelta(t, x.Computed, *x.Simulated, 1e-9, x.What)
		}
	}
}
