package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// TestWhatIf: rank 0 holds most of each prompt and is busy, rank 1 a part of it, rank 2 nothing. Choices
// of a policy that asks for no overlap are counted and left out.
func TestWhatIf(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	r := f.with(policy.LeastLoad{})
	ids := tokens(1, 4000)
	pick := func() *routing.Decision {
		t.Helper()
		d, err := r.Pick(&f.scratch, prompt(ids), nil)
		require.NoError(t, err)
		return &d
	}
	pick()
	all, of, total, without := r.WhatIf()
	require.Equal(t, []any{0, int64(0), 1}, []any{of, total, without})
	require.Equal(t, routing.WhatIf{Policy: "round-robin"}, all[1])

	for i, blocks := range []int{750, 500, 0} {
		f.holds(i, radix.DomainKey{}, ids, blocks, radix.TierGPU)
		f.ranks[i].SetExact(true)
		for range 2 - i {
			busy := f.ranks[i].Load.Begin(1000)
			defer busy.End()
		}
	}
	r.SetPolicy(policy.KV{Options: policy.Defaults})
	d := pick()
	for range 2 {
		require.Same(t, d.Rank, pick().Rank, "the facts are the same")
	}
	cached := map[int]int64{0: 3000, 1: 2000, 2: 0}
	all, of, total, without = r.WhatIf()
	require.Equal(t, []any{3, int64(12000), 1}, []any{of, total, without})
	at := 0
	for i, rank := range f.ranks {
		if rank == d.Rank {
			at = i
		}
	}
	one := func(name string, rank, same int) routing.WhatIf {
		return routing.WhatIf{Policy: name, Same: same, Cached: 3 * cached[rank], Left: 3 * (4000 - cached[rank]), Ahead: 3 * 1000 * int64(2-rank), Ranks: 1, Most: 3}
	}
	same := func(rank int) int {
		if rank == at {
			return 3
		}
		return 0
	}
	require.Equal(t, []routing.WhatIf{
		one("", at, 3),
		{Policy: "round-robin", Same: 1, Cached: 5000, Left: 7000, Ahead: 3000, Ranks: 3, Most: 1},
		one("least-load", 2, same(2)), one(routing.MostOverlap, 0, same(0)),
	}, all)
}

// TestWhatIfOfPairs: a pair counts by its prefill rank.
func TestWhatIfOfPairs(t *testing.T) {
	f := pairFleet(t, tiny())
	r := f.with(policy.KV{Options: policy.Defaults})
	_, err := r.Pick(&f.scratch, prompt(tokens(1, 400)), nil)
	require.NoError(t, err)
	all, of, _, without := r.WhatIf()
	require.Equal(t, []int{1, 0, 1, 1}, []int{of, without, all[0].Same, all[0].Ranks})
}
