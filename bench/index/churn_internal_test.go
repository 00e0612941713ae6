package index

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/radix"
)

func newTestChurn(tb testing.TB) *Churn {
	tb.Helper()
	c, err := NewChurn(Shared(churnRequests), ChurnOptions{Ranks: 16, Blocks: 500, IDBlocks: 4})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestChurnIsExact plays churn: no answer may be wrong, no step refused, no block credited that
// is not held.
func TestChurnIsExact(t *testing.T) {
	c := newTestChurn(t)
	got, refused := c.check(t.Context())
	if got.wrong+got.over+refused > 0 || got.lookUps < churnChecks*churnLookUps {
		t.Errorf("check = %+v with %d changes refused, want all of %d right",
			got, refused, churnChecks*churnLookUps)
	}
	if got.credits >= got.held || got.under == 0 {
		t.Errorf("check = %+v: no name was removed that two domains share", got)
	}
}

// TestChurnHasEverything checks that churn has all kinds of steps.
func TestChurnHasEverything(t *testing.T) {
	c := newTestChurn(t)
	kinds, fronts, tiers := map[stepKind]int{}, map[bool]int{}, map[radix.Tier]int{}
	for _, s := range c.steps {
		kinds[s.kind]++
		if s.kind == stepRemove {
			fronts[s.front]++
			tiers[s.tier]++
		}
	}
	if len(kinds) != 5 || len(fronts) != 2 || len(tiers) != churnTiers {
		t.Errorf("steps by kind %v, removals from the front %v, by tier %v: something is missing",
			kinds, fronts, tiers)
	}
	o := newOracle(c)
	holes := 0
	for i := range c.steps {
		o.apply(&c.steps[i])
	}
	for req := range uint32(c.Requests()) {
		for rank := range c.o.Ranks {
			blocks := c.blocks(req)
			for i := 1; i < len(blocks); i++ {
				_, before := o.held[rank][blocks[i-1]]
				if _, here := o.held[rank][blocks[i]]; here && !before {
					holes++
				}
			}
		}
	}
	if holes == 0 {
		t.Error("no rank has a hole at the end")
	}
	// Two ranks share an engine hash, a third has another; only SGLang's is equal in both
	// domains.
	if a, b, own := c.engineHashesOf(0, 0)[0], c.engineHashesOf(2, 0)[0], c.engineHashesOf(7, 0)[0]; a != b || a == own {
		t.Errorf("ranks 0, 2 and 7 call a block %#x, %#x and %#x", a, b, own)
	}
	if c.domains[0] == c.domains[1] {
		t.Error("all requests are of one domain")
	}
}

// TestChurnFindsFaults hides all steps of one kind in the second half from the index.
func TestChurnFindsFaults(t *testing.T) {
	c := newTestChurn(t)
	var all []uint32
	for req := range uint32(c.Requests()) {
		all = append(all, req)
	}
	for kind := stepStore; kind <= stepRemoveWorker; kind++ {
		p, o := newChurnPlayer(c), newOracle(c)
		var got comparison
		p.compare(o, all, &got)
		for i := range c.steps {
			s := &c.steps[i]
			o.apply(s)
			if i < len(c.steps)/2 || s.kind != kind {
				p.apply(s)
			}
			if i+1 == len(c.steps)/2 {
				p.compare(o, all, &got)
			}
		}
		if got.lookUps != 2*len(all) || got.wrong > 0 {
			t.Fatalf("kind %d: %+v before a step is left out", kind, got)
		}
		p.compare(o, all, &got)
		if got.wrong == 0 {
			t.Errorf("kind %d: %+v where steps are left out, want wrong answers", kind, got)
		}
	}
}

func TestNewChurnRefuses(t *testing.T) {
	tests := map[string]ChurnOptions{
		"give an even one":  {Ranks: 3, Blocks: 8000, IDBlocks: 8},
		"give workers more": {Ranks: 4, Blocks: 10, IDBlocks: 8},
		"give 1 to 65535":   {Blocks: 8000, IDBlocks: 8},
	}
	for want, o := range tests {
		if _, err := NewChurn(Shared(5), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewChurn(%+v) = %v, want an error with %q", o, err, want)
		}
	}
}

func TestChurnMeasure(t *testing.T) {
	c := newTestChurn(t)
	r, err := c.Measure(t.Context(), Config{Name: "churn", Rounds: 2})
	if err != nil || r.Entries == 0 || r.Entries != r.Pairs || len(r.Metrics) == 0 {
		t.Fatalf("Measure = %+v, %v", r, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := c.Measure(done, Config{Rounds: 1}); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("Measure that is cancelled = %v, %v", r, err)
	}
}

// TestOracleAliases checks the oracle on one engine hash in two domains.
func TestOracleAliases(t *testing.T) {
	trace := make([]Request, 2) // equal prompts, in domains 0 and 1
	for i := range trace {
		trace[i] = Request{Input: idTokens, IDs: []uint64{5}}
	}
	c, err := NewChurn(trace, ChurnOptions{Ranks: 2, Blocks: 4, IDBlocks: 2})
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(c)
	store := func(req uint32, t radix.Tier) { o.apply(&step{kind: stepStore, req: req, tier: t, end: 2}) }
	remove := func(req uint32, t radix.Tier) {
		o.apply(&step{kind: stepRemove, req: req, tier: t, start: 1, end: 2})
	}
	want := func(when string, req uint32, really, told overlap) {
		t.Helper()
		if r, d := o.match(0, req); r != really || d != told {
			t.Errorf("%s: request %d: match = %v, %v, want %v, %v", when, req, r, d, really, told)
		}
	}
	store(0, radix.TierGPU)
	want("one domain", 0, overlap{2, 2}, overlap{2, 2})
	want("one domain", 1, overlap{}, overlap{})
	store(1, radix.TierGPU)
	store(1, radix.TierCPU)
	want("two domains", 1, overlap{2, 2}, overlap{2, 2})
	remove(0, radix.TierGPU)
	want("one removal", 0, overlap{1, 1}, overlap{1, 1})
	want("one removal", 1, overlap{2, 2}, overlap{2, 1}) // the copy on the CPU is certain, the one on the GPU is not
	remove(1, radix.TierGPU)
	want("both removals", 1, overlap{2, 1}, overlap{2, 1})
	remove(1, radix.TierCPU)
	want("all gone", 1, overlap{1, 1}, overlap{1, 1})
	store(0, radix.TierGPU)
	want("stored again", 0, overlap{2, 2}, overlap{2, 2})
	o.apply(&step{kind: stepClear})
	want("cleared", 0, overlap{}, overlap{})
}
