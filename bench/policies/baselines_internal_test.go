package policies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Source: arXiv 2602.06502.
func TestDualMapRule(t *testing.T) {
	p := dualMap{objective: 1}
	candidates := make([]policy.Candidate, 8)
	for i := range candidates {
		candidates[i] = policy.Candidate{ID: uint64(i + 1), Rate: 1000}
	}
	for prefix := uint64(1); prefix <= 500; prefix++ {
		req := policy.Request{Tokens: 1000}
		pair := map[int]bool{}
		for range candidates { // filling each winner finds the pair
			all := append([]policy.Candidate(nil), candidates...)
			for i := range pair {
				all[i].Pending = 5000
			}
			pair[p.pickByPrefix(prefix, req, all).Index] = true
		}
		require.Len(t, pair, 2, "prefix %d has two homes", prefix)
		homes := make([]int, 0, 2)
		for i := range pair {
			homes = append(homes, i)
		}
		a, b := homes[0], homes[1]
		all := append([]policy.Candidate(nil), candidates...)
		all[a].Cached, all[a].Pending = 900, 800 // 0.9 s: within the objective
		require.Equal(t, a, p.pickByPrefix(prefix, req, all).Index, "affinity")
		all[a].Pending = 1000 // 1.1 s: in danger, and b takes 1.0 s
		require.Equal(t, b, p.pickByPrefix(prefix, req, all).Index, "the objective")
		all[b].Pending = 500 // 1.5 s: worse
		require.Equal(t, a, p.pickByPrefix(prefix, req, all).Index, "the better of two bad ones")
	}
	one := p.pickByPrefix(3, policy.Request{}, candidates[:1])
	assert.Zero(t, one.Index)
}
