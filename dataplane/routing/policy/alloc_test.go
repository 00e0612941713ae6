//go:build !race

package policy_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func TestPickDoesNotAllocate(t *testing.T) {
	candidates := make([]policy.Candidate, 64)
	for _, name := range policy.Names() {
		p, err := policy.New(name, policy.Options{OverlapWeight: 1})
		if err != nil {
			t.Fatal(err)
		}
		var sticky policy.Policy = policy.Sticky{Policy: p}
		req := policy.Request{Tokens: 1000, Seed: 1}
		for home := range uint64(2) { // without a session, and with one on a missing rank
			req.Home = home
			if n := testing.AllocsPerRun(100, func() { p.Pick(req, candidates); sticky.Pick(req, candidates) }); n != 0 {
				t.Errorf("%s: Pick allocates %v times, want 0", name, n)
			}
		}
	}
}

func TestExplainingDoesNotAllocate(t *testing.T) {
	candidates := make([]policy.Candidate, 64)
	costs, scores := make([]policy.Cost, 0, 64), make([]float64, 0, 64)
	p := policy.KV{Options: policy.Defaults}
	var kv policy.Policy = p
	req := policy.Request{Tokens: 1000}
	if n := testing.AllocsPerRun(100, func() { costs = p.Costs(costs[:0], req, candidates) }); n != 0 {
		t.Errorf("Costs allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { scores = policy.Scores(scores[:0], kv, req, candidates) }); n != 0 {
		t.Errorf("Scores allocates %v times, want 0", n)
	}
}

func BenchmarkPick(b *testing.B) {
	candidates := make([]policy.Candidate, 64)
	for _, name := range policy.Names() {
		p, err := policy.New(name, policy.Options{OverlapWeight: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/workers=64", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				p.Pick(policy.Request{Tokens: 1000, Seed: uint64(i), Turn: uint64(i)}, candidates)
			}
		})
	}
}
