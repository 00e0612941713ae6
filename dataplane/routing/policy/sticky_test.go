package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func TestStickyRule(t *testing.T) {
	four := func(flights ...int64) []policy.Candidate {
		c := make([]policy.Candidate, 4)
		for i := range c {
			c[i] = policy.Candidate{ID: uint64(i + 1), InFlight: flights[i]}
		}
		return c
	}
	p := policy.Sticky{Policy: policy.LeastLoad{}}
	at := policy.Request{Home: 3}
	const home, other = "its session's rank", "fewest requests in flight"
	full := four(0, 9, 2, 9)
	full[2].Most = 2
	checkRules(t, p, []rule{
		{"its rank", at, four(5, 0, 4, 5), 2, home},
		{"its rank, although nothing else is busy", at, four(0, 0, 1, 0), 2, home},
		{"overloaded: 5 of 13 + 1 are above 1.25 times the mean of 3.5", at, four(0, 4, 5, 4), 0, other},
		{"4 of 12 + 1 are not above 4.06", at, four(0, 4, 4, 4), 2, home},
		{"no place left", at, full, 0, other},
		{"not there", policy.Request{Home: 9}, four(1, 0, 1, 1), 1, other},
		{"no session", policy.Request{}, four(1, 0, 1, 1), 1, other},
	})
	assert.Equal(t, "least-load", p.Name())
	assert.Equal(t, policy.Policy(policy.LeastLoad{}), policy.Unwrap(p))
	assert.Equal(t, policy.Policy(policy.LeastLoad{}), policy.Unwrap(policy.LeastLoad{}))
	kv := policy.Sticky{Policy: policy.KV{Options: policy.Defaults}}
	assert.Len(t, policy.Scores(nil, kv, at, four(1, 2, 3, 4)), 4, "it is explained by what it wraps")
}

// A policy ignores the facts that it does not need.
func TestNeedsAreAll(t *testing.T) {
	for _, name := range policy.Names() {
		p := named(t, name, policy.Defaults)
		needs := p.Needs()
		for seed := range uint64(200) {
			req := policy.Request{Tokens: 1000, Exact: true, Seed: seed, Turn: seed}
			plain := make([]policy.Candidate, 6)
			for i := range plain {
				plain[i] = policy.Candidate{ID: uint64(i + 1), InFlight: int64(seed*uint64(i)) % 3}
			}
			rich := append([]policy.Candidate(nil), plain...)
			if !needs.Has(policy.NeedsOverlap) {
				for i := range rich {
					rich[i].Cached, rich[i].Predicted, rich[i].Host = 100*i, 50*i, 20*i
				}
			}
			assert.Equal(t, p.Pick(req, plain).Index, p.Pick(req, rich).Index, name)
		}
	}
}
