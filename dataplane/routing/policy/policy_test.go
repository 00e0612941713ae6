package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func kv(t *testing.T, o policy.Options) policy.Policy {
	t.Helper()
	p, err := policy.New("kv", o)
	require.NoError(t, err)
	return p
}

func TestKVPick(t *testing.T) {
	tests := []struct {
		name       string
		tokens     int
		candidates []policy.Candidate
		want       int
	}{
		{"overlap wins when idle", 1000, []policy.Candidate{{Cached: 0}, {Cached: 800}, {Cached: 400}}, 1},
		{"a queue outweighs overlap", 1000, []policy.Candidate{{Cached: 0}, {Cached: 800, Pending: 5000}}, 0},
		{"a short queue does not", 1000, []policy.Candidate{{Cached: 0}, {Cached: 800, Pending: 500}}, 1},
		{"the batch counts", 1000, []policy.Candidate{{Cached: 100, InFlight: 30}, {Cached: 90}}, 1},
		{"one candidate", 10, []policy.Candidate{{Pending: 1 << 40}}, 0},
	}
	p := kv(t, policy.Options{OverlapWeight: 1})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				got := p.Pick(policy.Request{Tokens: tt.tokens, Exact: true, Seed: seed}, tt.candidates)
				assert.Equal(t, tt.want, got.Index)
			}
		})
	}
}

// A policy of highest overlap alone sends requests with a common first block to one worker.
// Here each request shares only its first block and none ends: the load must spread all the
// same.
func TestKVSpreadsRequestsThatShareTheirFirstBlock(t *testing.T) {
	const workers, requests, tokens, block = 8, 800, 4096, 512
	p := kv(t, policy.Options{OverlapWeight: 1})
	candidates := make([]policy.Candidate, workers)
	share := make([]int, workers)
	candidates[0].Cached = block
	for i := range requests {
		got := p.Pick(policy.Request{Tokens: tokens, Exact: true, Seed: uint64(i)}, candidates).Index
		share[got]++
		candidates[got].Pending += int64(tokens - candidates[got].Cached)
		candidates[got].InFlight++
		candidates[got].Cached = block
	}
	for w, n := range share {
		assert.InDelta(t, requests/workers, n, requests/workers/4, "worker %d", w)
	}
}

func TestKVTiesAreSpread(t *testing.T) {
	p := kv(t, policy.Options{OverlapWeight: 1})
	share := make([]int, 4)
	for seed := range uint64(4000) {
		share[p.Pick(policy.Request{Tokens: 100, Seed: seed * 7919}, make([]policy.Candidate, 4)).Index]++
	}
	for w, n := range share {
		assert.InDelta(t, 1000, n, 150, "worker %d", w)
	}
}

func TestKVTemperatureSpreadsAndPrefers(t *testing.T) {
	p := kv(t, policy.Options{OverlapWeight: 1, Temperature: 0.5})
	candidates := []policy.Candidate{{Cached: 900}, {Cached: 0}}
	share := make([]int, 2)
	for seed := range uint64(2000) {
		share[p.Pick(policy.Request{Tokens: 1000, Seed: seed}, candidates).Index]++
	}
	// softmax of a range of one at temperature 0.5: 1 / (1 + e^-2) = 0.88.
	assert.InDelta(t, 0.88, float64(share[0])/2000, 0.03)
}

func TestKVOverlapWeightZeroIgnoresTheCache(t *testing.T) {
	p := kv(t, policy.Options{})
	got := p.Pick(policy.Request{Tokens: 1000}, []policy.Candidate{{Cached: 999, InFlight: 1}, {}})
	assert.Equal(t, 1, got.Index)
}

func TestLoadPolicies(t *testing.T) {
	candidates := []policy.Candidate{{InFlight: 3}, {InFlight: 1, Pending: 10}, {InFlight: 1, Pending: 5}}
	least, err := policy.New("least-load", policy.Options{})
	require.NoError(t, err)
	assert.Equal(t, 2, least.Pick(policy.Request{}, candidates).Index)

	turn, err := policy.New("round-robin", policy.Options{})
	require.NoError(t, err)
	for i := range uint64(9) {
		assert.Equal(t, int(i%3), turn.Pick(policy.Request{Turn: i}, candidates).Index)
	}
	for _, name := range []string{"random", "power-of-two"} {
		p, err := policy.New(name, policy.Options{})
		require.NoError(t, err)
		share := make([]int, 3)
		for seed := range uint64(3000) {
			share[p.Pick(policy.Request{Seed: seed}, candidates).Index]++
		}
		if name == "power-of-two" {
			assert.Zero(t, share[0], "the most loaded of three never wins")
			assert.InDelta(t, 2000, share[2], 150)
			continue
		}
		for _, n := range share {
			assert.InDelta(t, 1000, n, 150)
		}
	}
}

func TestEveryPolicyIsPure(t *testing.T) {
	candidates := []policy.Candidate{{Cached: 5, Pending: 3}, {InFlight: 2}, {Cached: 90}, {}}
	for _, name := range policy.Names() {
		p, err := policy.New(name, policy.Options{OverlapWeight: 1})
		require.NoError(t, err)
		assert.Equal(t, name, p.Name())
		for seed := range uint64(50) {
			req := policy.Request{Tokens: 100, Seed: seed, Turn: seed}
			assert.Equal(t, p.Pick(req, candidates), p.Pick(req, candidates))
		}
	}
}

func TestNewRejectsUnknownNames(t *testing.T) {
	_, err := policy.New("best", policy.Options{})
	require.ErrorIs(t, err, policy.ErrUnknown)
	assert.ErrorContains(t, err, "round-robin")
}
