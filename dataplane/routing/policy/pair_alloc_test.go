//go:build !race

package policy_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func TestPickPairDoesNotAllocate(t *testing.T) {
	l := legs(64, 64)
	for i := range 64 {
		l.PrefillHosts[i], l.DecodeHosts[i] = uint32(i/8), uint32(i/8)
	}
	alone := make([]policy.Candidate, 8)
	for _, name := range policy.Names() {
		p, err := policy.New(name, policy.Defaults)
		if err != nil {
			t.Fatal(err)
		}
		req := policy.Request{Tokens: 1000, Seed: 1}
		if n := testing.AllocsPerRun(100, func() {
			prefill, decode := policy.PickPair(p, req, l)
			policy.Alone(p, req, alone, 0, l, prefill.Index, decode.Index, 256)
		}); n != 0 {
			t.Errorf("%s: a pair allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkPickPair(b *testing.B) {
	for _, nodes := range []int{1, 8, 64} {
		l := legs(64, 64)
		for i := range 64 {
			l.PrefillHosts[i], l.DecodeHosts[i] = uint32(i%nodes), uint32(i%nodes)
		}
		var p policy.Policy = policy.KV{Options: policy.Defaults}
		b.Run("ranks=64+64/nodes="+[...]string{1: "1", 8: "8", 64: "64"}[nodes], func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				policy.PickPair(p, policy.Request{Tokens: 1000, Seed: uint64(i)}, l)
			}
		})
	}
}
