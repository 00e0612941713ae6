package routing_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// TestCredit follows the engine's own reports: at least one token of a prompt is always
// computed, and a page is cached whole.
func TestCredit(t *testing.T) {
	f := newFleet(t, tiny())
	all := tokens(1, 40)
	f.holds(0, radix.DomainKey{}, all, 8, radix.TierGPU)
	for n := 1; n <= len(all); n++ {
		want := min(8*page, (n-1)/page*page)
		cached, d := f.pick(prompt(all[:n]))
		require.Equal(t, []int{want}, cached, "tokens cached of %d", n)
		require.Equal(t, want, d.Cached, "cached of %d", n)
		require.Equal(t, n-want, d.Uncached(), "uncached of %d", n)
		require.Equal(t, []int{want / page, n / page}, []int{d.Matched, d.Total}, "blocks matched and total of %d tokens", n)
		require.Equal(t, policy.Request{Tokens: n, Exact: true, Turn: uint64(n - 1), Seed: 42}, f.spy.req)
	}
}

func TestCreditByKind(t *testing.T) {
	ids := tokens(1, 41) // ten blocks and a tail
	salted := radix.DomainKey{Salt: "s"}
	tests := []struct {
		name    string
		shapes  []ingest.Shape
		prepare func(f *fleet)
		lora    string
		salt    string
		cached  int
		host    int
		matched int
		total   int
	}{
		{"nothing", nil, func(*fleet) {}, "", "", 0, 0, 0, 10},
		{"on the GPU", nil, func(f *fleet) { f.holds(0, radix.DomainKey{}, ids, 6, radix.TierGPU) }, "", "", 24, 0, 6, 10},
		{"in host memory", nil, func(f *fleet) { f.holds(0, radix.DomainKey{}, ids, 6, radix.TierCPU) }, "", "", 24, 24, 6, 10},
		{"partly on the GPU", nil, func(f *fleet) {
			id := f.holds(0, radix.DomainKey{}, ids, 6, radix.TierCPU)
			f.store(id, radix.DomainKey{}, ids, 2, radix.TierGPU)
		}, "", "", 24, 16, 6, 10},
		{"salted prompt, plain blocks", nil, func(f *fleet) { f.holds(0, radix.DomainKey{}, ids, 6, radix.TierGPU) }, "", "s", 0, 0, 0, 10},
		{"plain prompt, salted blocks", nil, func(f *fleet) { f.holds(0, salted, ids, 6, radix.TierGPU) }, "", "", 0, 0, 0, 10},
		{"salted", nil, func(f *fleet) { f.holds(0, salted, ids, 6, radix.TierGPU) }, "", "s", 24, 0, 6, 10},
		{"adapter", nil, func(f *fleet) { f.holds(0, radix.DomainKey{LoRA: "sql"}, ids, 6, radix.TierGPU) }, "sql", "", 24, 0, 6, 10},
		{"another adapter", nil, func(f *fleet) { f.holds(0, radix.DomainKey{LoRA: "sql"}, ids, 6, radix.TierGPU) }, "qa", "", 0, 0, 0, 10},
		{"another model's blocks", nil, func(f *fleet) { f.holds(0, radix.DomainKey{Model: "big"}, ids, 6, radix.TierGPU) }, "", "", 0, 0, 0, 10},
		{"hybrid: the least of its groups", nil, func(f *fleet) {
			f.holds(0, radix.DomainKey{}, ids, 6, radix.TierGPU)
			f.holds(0, radix.DomainKey{}, ids, 3, radix.TierGPU)
		}, "", "", 12, 0, 3, 10},
		{"hybrid: a group without anything", nil, func(f *fleet) {
			f.holds(0, radix.DomainKey{}, ids, 6, radix.TierGPU)
			f.holds(0, radix.DomainKey{}, ids, 0, radix.TierGPU)
		}, "", "", 0, 0, 0, 10},
		{"hybrid: the least on the GPU", nil, func(f *fleet) {
			f.holds(0, radix.DomainKey{}, ids, 6, radix.TierCPU)
			f.holds(0, radix.DomainKey{}, ids, 5, radix.TierGPU)
		}, "", "", 20, 20, 5, 10},
		{"bigrams", []ingest.Shape{{Model: model, BlockSize: page, Bigram: true}}, func(f *fleet) {
			f.holds(0, radix.DomainKey{Bigram: true}, ids, 10, radix.TierGPU)
		}, "", "", 36, 0, 9, 10},
		{"bigrams for plain blocks", []ingest.Shape{{Model: model, BlockSize: page, Bigram: true}}, func(f *fleet) {
			f.holds(0, radix.DomainKey{}, ids, 10, radix.TierGPU)
		}, "", "", 0, 0, 0, 10},
		{"another block size", []ingest.Shape{{Model: model, BlockSize: page}, {Model: model, BlockSize: 16}}, func(f *fleet) {
			f.holds(0, radix.DomainKey{BlockSize: 16}, ids, 2, radix.TierGPU)
		}, "", "", 32, 0, 2, 2},
		{"the longer of two block sizes", []ingest.Shape{{Model: model, BlockSize: 16}, {Model: model, BlockSize: page}}, func(f *fleet) {
			id := f.holds(0, radix.DomainKey{BlockSize: 16}, ids, 1, radix.TierGPU)
			f.store(id, radix.DomainKey{}, ids, 7, radix.TierGPU)
		}, "", "", 28, 0, 7, 10},
		{"another model's shape", []ingest.Shape{{Model: "big", BlockSize: page}}, func(f *fleet) {
			f.holds(0, radix.DomainKey{}, ids, 6, radix.TierGPU)
		}, "", "", 0, 0, 0, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tiny())
			if tt.shapes != nil {
				f.shapes = tt.shapes
			}
			tt.prepare(f)
			p := prompt(ids)
			p.LoRA, p.Salt = tt.lora, tt.salt
			_, d := f.pick(p)
			c := f.spy.candidates[0]
			require.Equal(t, []int{tt.cached, tt.host, tt.matched, tt.total}, []int{c.Cached, c.Host, d.Matched, d.Total},
				"cached, of it in host memory, blocks matched, total")
		})
	}
}

// TestBigramsOfAWholePrompt: the engine finds as many pages as there are in all tokens but two.
func TestBigramsOfAWholePrompt(t *testing.T) {
	f := newFleet(t, tiny())
	f.shapes = []ingest.Shape{{Model: model, BlockSize: page, Bigram: true}}
	f.holds(0, radix.DomainKey{Bigram: true}, tokens(1, 60), 10, radix.TierGPU)
	for n := range 45 {
		cached, d := f.pick(prompt(tokens(1, 60)[:n]))
		want := max(n-2, 0) / page
		require.Equal(t, []int{want * page, want}, []int{cached[0], d.Matched}, "%d tokens", n)
	}
}

func TestNoCreditWithoutTheTokens(t *testing.T) {
	f := newFleet(t, tiny())
	ids := tokens(1, 40)
	f.holds(0, radix.DomainKey{}, ids, 10, radix.TierGPU)

	p := prompt(ids)
	p.Opaque = true
	cached, d := f.pick(p)
	require.Equal(t, []int{0}, cached, "an opaque prompt")
	require.Equal(t, []int{0, 10}, []int{d.Matched, d.Total})

	p = prompt(nil)
	p.Exact, p.Estimate = false, 40
	cached, d = f.pick(p)
	require.Equal(t, []int{0}, cached, "an estimated prompt")
	require.Equal(t, []int{0, 0, 40, 40}, []int{d.Matched, d.Total, d.PromptTokens, d.Uncached()})
	require.False(t, f.spy.req.Exact)

	cached, _ = f.pick(prompt(nil))
	require.Equal(t, []int{0}, cached, "no prompt at all")
	cached, _ = f.pick(prompt(ids))
	require.Equal(t, []int{36}, cached, "the prompt itself, with the same scratch")
}

// TestPickAgainstNaive compares the overlaps of Pick with a plain count, on random caches; a
// pick must leave no trace in the next.
func TestPickAgainstNaive(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), &node{models: named(model), dp: 3})
	rng := rand.New(rand.NewPCG(1, 1))
	held := map[int]map[uint32]int{} // by rank and prompt: blocks
	for rank := range f.ranks {
		id := f.holds(rank, radix.DomainKey{}, tokens(0, page), 0, radix.TierGPU)
		held[rank] = map[uint32]int{}
		for p := range uint32(6) {
			if n := rng.IntN(12); n > 0 && rng.IntN(3) > 0 {
				f.store(id, radix.DomainKey{}, tokens(p, 12*page), n, radix.TierGPU)
				held[rank][p] = n
			}
		}
	}
	for range 500 {
		p, n := uint32(rng.IntN(7)), rng.IntN(14*page)+1
		var want []int
		for rank := range f.ranks {
			want = append(want, min(held[rank][p]*page, (n-1)/page*page))
		}
		f.spy.pick = rng.IntN(len(f.ranks))
		cached, d := f.pick(prompt(tokens(p, n)))
		require.Equal(t, want, cached, "tokens of prompt %d, %d long, cached by each rank", p, n)
		require.Same(t, f.ranks[f.spy.pick], d.Rank)
		require.Equal(t, want[f.spy.pick], d.Cached)
	}
}
