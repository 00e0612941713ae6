package policies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Source: sgl-model-gateway/src/policies/prefix_hash.rs.
func TestPrefixHashRule(t *testing.T) {
	p := prefixHash{}
	idle := make([]policy.Candidate, 4)
	for i := range idle {
		idle[i].ID = uint64(100 + i)
	}
	share := make([]int, 4)
	for prefix := uint64(1); prefix <= 4000; prefix++ {
		req := policy.Request{Seed: prefix}
		home := p.pickByPrefix(prefix, req, idle).Index
		share[home]++
		busy := append([]policy.Candidate(nil), idle...)
		busy[(home+1)%4].InFlight = 10
		require.Equal(t, home, p.pickByPrefix(prefix, req, busy).Index, "load elsewhere moves nothing")
		busy[home].InFlight = 6 // of 1.25 × 17 / 4 = 5.3
		moved := p.pickByPrefix(prefix, req, busy)
		require.NotEqual(t, home, moved.Index)
		require.Zero(t, busy[moved.Index].InFlight, "the least loaded takes over")
		// Another rank's end moves nothing of this one's.
		gone := append([]policy.Candidate(nil), idle...)
		gone = append(gone[:(home+1)%4], gone[(home+1)%4+1:]...)
		require.Equal(t, idle[home].ID, gone[p.pickByPrefix(prefix, req, gone).Index].ID)
	}
	for _, n := range share {
		assert.InDelta(t, 1000, n, 150)
	}
	none := p.Pick(policy.Request{}, []policy.Candidate{{InFlight: 2}, {InFlight: 1}})
	assert.Equal(t, policy.Choice{Index: 1, Why: "least load, without a prefix"}, none)
}

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
