package routing_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// TestRecentChoicesAreAsExplained: a kept choice has the costs that Explain has told before it, also
// after the facts have changed, for single ranks and for pairs.
func TestRecentChoicesAreAsExplained(t *testing.T) {
	fleets := map[string]func() *fleet{
		"single": func() *fleet { return newFleet(t, tiny(), tiny(), tiny()) },
		"pairs":  func() *fleet { return pairFleet(t, tiny()) },
	}
	for name, build := range fleets {
		t.Run(name, func(t *testing.T) {
			f := build()
			ids := tokens(1, 4000)
			f.holds(1, radix.DomainKey{}, ids, 500, radix.TierGPU)
			f.ranks[1].SetExact(true)
			r := f.with(policy.KV{Options: policy.Options{OverlapWeight: 0.5}})
			p := prompt(ids)
			p.Name = []byte("request-1")
			want := r.Explain(&f.scratch, p, 42)
			require.NoError(t, want.Err)
			d, err := r.Pick(&f.scratch, p, nil)
			require.NoError(t, err)
			copy(p.Name, "reused!!!") // by the next request on the connection
			busy := f.ranks[1].Load.Begin(3000)
			defer busy.End()
			_, err = r.Pick(&f.scratch, p, f.ranks[:1])
			require.NoError(t, err)

			all := r.Recent()
			require.Len(t, all, 2)
			require.True(t, all[0].Again)
			require.Empty(t, all[1].Ranks, "the list has no candidates")
			got, found := r.ExplainRecent(all[1].Number)
			require.True(t, found)
			require.Equal(t, []any{"request-1", model, "kv", false}, []any{got.Name, got.Model, got.Policy, got.Again})
			require.Same(t, d.Rank, got.Decision.Rank)
			require.Equal(t, d.Choice, got.Decision.Choice)
			require.Equal(t, want.Request.Tokens, got.Request.Tokens)
			require.Equal(t, want.Options, got.Options)
			require.Equal(t, got.Candidates, len(got.Ranks))
			for i := range got.Ranks {
				w, g := &want.Ranks[i], &got.Ranks[i]
				require.Same(t, w.Rank, g.Rank)
				require.Equal(t, []any{w.Cost, w.Candidate, w.Cached, w.Score}, []any{g.Cost, g.Candidate, g.Cached, g.Score})
			}
			require.Len(t, got.Decodes, len(want.Decodes))
			for i := range got.Decodes {
				require.Equal(t, want.Decodes[i].Cost, got.Decodes[i].Cost)
			}
			require.Same(t, want.First, got.First)
			require.Same(t, want.Second, got.Second)
			require.InDelta(t, want.PairTTFT, got.PairTTFT, 1e-12)

			_, found = r.ExplainRecent(99)
			require.False(t, found)
		})
	}
}

// TestRecentChoicesAreBounded: of many at one instant 16 are kept, then four a second, and 64 in
// all, the newest first.
func TestRecentChoicesAreBounded(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		r := f.with(policy.LeastLoad{})
		pick := func(n int) {
			for range n {
				_, err := r.Pick(&f.scratch, prompt(tokens(1, 8)), nil)
				require.NoError(f.t, err)
			}
		}
		require.Empty(f.t, r.Recent())
		pick(100)
		require.Len(f.t, r.Recent(), 16)
		time.Sleep(time.Second)
		pick(100)
		require.Len(f.t, r.Recent(), 20)
		for range 30 {
			time.Sleep(time.Second)
			pick(100)
		}
		all := r.Recent()
		require.Len(f.t, all, 64)
		require.True(f.t, slices.IsSortedFunc(all, func(a, b routing.RecentChoice) int { return int(b.Number) - int(a.Number) }))
		require.False(f.t, all[0].At.Before(all[63].At.Add(15*time.Second)))
	})
}

// TestRecentChoicesAreReadWhileOthersAreMade is for the race detector, and for a choice that finds
// its place being read.
func TestRecentChoicesAreReadWhileOthersAreMade(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	r := f.with(policy.KV{Options: policy.Defaults})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var s routing.Scratch
			for range 200 {
				_, _ = r.Pick(&s, prompt(tokens(1, 8)), nil)
			}
		})
	}
	for range 50 {
		for _, c := range r.Recent() {
			if x, found := r.ExplainRecent(c.Number); found {
				require.Equal(t, c.Number, x.Number)
				require.Len(t, x.Ranks, 2)
			}
		}
	}
	wg.Wait()
	require.NotEmpty(t, r.Recent())
}
