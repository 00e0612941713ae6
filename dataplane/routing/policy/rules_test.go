package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// rule is one case of a policy's table: its winner must win for every seed.
type rule struct {
	name       string
	req        policy.Request
	candidates []policy.Candidate
	want       int
	why        string // if not ""
}

func checkRules(t *testing.T, p policy.Policy, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for seed := range uint64(20) {
				r.req.Seed = seed
				got := p.Pick(r.req, r.candidates)
				require.Equal(t, r.want, got.Index, "%+v", got)
				if r.why != "" {
					require.Equal(t, r.why, got.Why)
				}
			}
		})
	}
}

func named(t *testing.T, name string, o policy.Options) policy.Policy {
	t.Helper()
	p, err := policy.New(name, o)
	require.NoError(t, err)
	return p
}

// Source: sgl-model-gateway/src/policies/cache_aware.rs.
func TestApproxRule(t *testing.T) {
	req := policy.Request{Tokens: 1000}
	checkRules(t, policy.Approx{}, []rule{
		{"overlap above 0.3 of the prompt", req, []policy.Candidate{{}, {Cached: 301, InFlight: 60}}, 1, "highest overlap"},
		{"overlap of 0.3 is too little", req, []policy.Candidate{{}, {Cached: 300, InFlight: 1}}, 0, "least load, because no overlap is worth it"},
		{"equal overlap: the lower load", req, []policy.Candidate{{Cached: 500, InFlight: 2}, {Cached: 500, InFlight: 1}}, 1, ""},
		{"equal load: the smaller tree", req, []policy.Candidate{{Tree: 20}, {Tree: 10}, {Tree: 30}}, 1, ""},
		{
			"65 requests apart is out of balance", req,
			[]policy.Candidate{{Cached: 900, InFlight: 65}, {}},
			1,
			"least load, because loads are out of balance",
		},
		{"64 requests apart is not", req, []policy.Candidate{{Cached: 900, InFlight: 64}, {}}, 0, "highest overlap"},
		{"nor is less than 1.5 times", req, []policy.Candidate{{Cached: 900, InFlight: 299}, {InFlight: 200}}, 0, "highest overlap"},
		{"the prompt in flight is not in its tree", req, []policy.Candidate{{Predicted: 900, InFlight: 1}, {}}, 1, ""},
	})
}

// Source: lib/kv-router/src/scheduling/selector.rs. Costs are in blocks of 16 tokens.
func TestDynamoRule(t *testing.T) {
	p := named(t, "dynamo", policy.Defaults)
	req := policy.Request{Tokens: 160}
	checkRules(t, p, []rule{
		{"overlap", req, []policy.Candidate{{}, {Cached: 80}}, 1, ""},
		{"prompts being prefilled", req, []policy.Candidate{{Pending: 96}, {}, {Cached: 80, Pending: 160}}, 1, ""},
		{"running blocks", req, []policy.Candidate{{Used: 1600, Cached: 160}, {}}, 1, ""},
		{"host memory is worth three quarters", req, []policy.Candidate{{Cached: 80, Host: 80}, {Cached: 64}, {Cached: 48}}, 1, ""},
		{"disk a quarter", req, []policy.Candidate{{Cached: 160, Host: 160, Disk: 160}, {Cached: 48}}, 1, ""},
	})
	got := policy.Scores(nil, p, req, []policy.Candidate{{Cached: 80, Host: 32, Disk: 16, Pending: 32, Used: 320}})
	// (32 + 160 − (48 + 0.75 × 16 + 0.25 × 16) + 320 + 160) / 16
	assert.Equal(t, []float64{(32 + 160 - 64 + 320 + 160) / 16.0}, got)
	heavy := named(t, "dynamo", policy.Options{OverlapWeight: 2})
	assert.Equal(t, []float64{(160 - 96 + 160) / 16.0}, policy.Scores(nil, heavy, req, []policy.Candidate{{Cached: 48}}))
}

// Source: the articles' score, overlap × f + (1 − f) × 0.5 − 0.01 × queue depth.
func TestStalenessRule(t *testing.T) {
	p := named(t, "staleness", policy.Options{Interval: 2})
	req := policy.Request{Tokens: 100}
	checkRules(t, p, []rule{
		{"overlap", req, []policy.Candidate{{Cached: 30}, {Cached: 50}}, 1, ""},
		{"30 requests weigh 0.3", req, []policy.Candidate{{Cached: 50, InFlight: 31}, {Cached: 20}}, 1, ""},
		{"29 do not", req, []policy.Candidate{{Cached: 50, InFlight: 29}, {Cached: 20}}, 0, ""},
		{"silent for three intervals is half a hit", req, []policy.Candidate{{Cached: 99, Age: 6}, {Cached: 51}}, 1, ""},
		{"and better than a third of one", req, []policy.Candidate{{Age: 60}, {Cached: 33}}, 0, ""},
	})
	got := policy.Scores(nil, p, req, []policy.Candidate{{Cached: 80, Age: 3, InFlight: 10}})
	assert.InDelta(t, -(0.8*0.5 + 0.5*0.5 - 0.1), got[0], 1e-12) // f = 1 − 3 / 6
}

// Source: arXiv 2603.15202; sgl-model-gateway/src/policies/lmetric.rs.
func TestLMetricRule(t *testing.T) {
	p := named(t, "lmetric", policy.Options{})
	req := policy.Request{Tokens: 100}
	checkRules(t, p, []rule{
		{"less to compute", req, []policy.Candidate{{Cached: 10}, {Cached: 50}}, 1, ""},
		{"smaller batch", req, []policy.Candidate{{InFlight: 1}, {}}, 1, ""},
		{"half to compute, three times the batch", req, []policy.Candidate{{Cached: 50, InFlight: 2}, {}}, 1, ""},
		{"what is in the making counts", req, []policy.Candidate{{}, {Predicted: 90, InFlight: 1}}, 1, ""},
	})
}

func TestScoresOfPoliciesWithoutScore(t *testing.T) {
	for _, name := range []string{"approx", "round-robin", "random", "least-load", "power-of-two"} {
		assert.Empty(t, policy.Scores(nil, named(t, name, policy.Options{}), policy.Request{}, make([]policy.Candidate, 3)), name)
	}
}
