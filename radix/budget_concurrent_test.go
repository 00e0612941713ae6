package radix

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestBudgetUnderWriters has different writers fill an index far beyond its budget, beside
// look-ups: it stays within the budget, credits no block that was never stored, and is
// consistent at the end.
func TestBudgetUnderWriters(t *testing.T) {
	const writers, prompts, depth = 6, 400, 40
	x := New(Config{Seed: 1, MaxBytes: minBudget, Stripes: 4})
	x.tree.limit.max, x.tree.limit.soft = 300<<10, 290<<10 // half of the final size
	domains := []Domain{x.Domain(salt(0)), x.Domain(salt(1))}
	var done atomic.Bool
	var writing, reading sync.WaitGroup
	for g := range writers {
		w := x.AddWorker()
		writing.Go(func() { writeBeyond(t, x, w, g, domains, beyondRounds) })
	}
	reading.Go(func() {
		r := rand.New(rand.NewPCG(1, 99))
		var buf []Overlap
		for !done.Load() {
			p := r.IntN(prompts)
			buf = x.Match(buf[:0], domains[p%2], promptOf(p, depth))
			for _, o := range buf {
				if o.Blocks > depth || o.GPU > o.Blocks {
					t.Errorf("Match of prompt %d = %+v", p, o)
				}
			}
			// The reservation does not cover growing tables: a call's own blocks may exceed the
			// budget.
			if s := x.Stats(); s.Bytes > s.MaxBytes+writers*depth*256 {
				t.Errorf("%d bytes, the budget is %d", s.Bytes, s.MaxBytes)
				return
			}
		}
	})
	writing.Wait()
	done.Store(true)
	reading.Wait()
	checkIndex(t, x)
	s := x.Stats()
	if s.EvictedBlocks < 2000 || s.EvictedRuns == 0 || s.Bytes > s.MaxBytes || x.tree.limit.reserved.Load() != 0 {
		t.Errorf("Stats() = %+v, %d bytes reserved", s, x.tree.limit.reserved.Load())
	}
	for w := range Worker(writers) {
		x.RemoveWorker(w)
	}
	if s := x.Stats(); s.Entries+s.Runs+s.Blocks > 0 {
		t.Errorf("Stats() = %+v of the emptied index", s)
	}
}

// promptOf returns the blocks of a prompt. Every tenth prompt has the same first quarter.
func promptOf(p, depth int) []Hash {
	blocks := make([]Hash, depth)
	for i := range blocks {
		of := p
		if i < depth/4 {
			of = p % 10
		}
		blocks[i] = Hash(of*depth+i+1) * spread
	}
	return blocks
}

// writeBeyond stores prompts in parts, and removes, moves and clears some. Every third writer
// has engine hashes of its own; those of the others are equal in both domains.
func writeBeyond(t *testing.T, x *Index, w Worker, g int, domains []Domain, rounds int) {
	t.Helper()
	const prompts, depth = 400, 40
	r := rand.New(rand.NewPCG(uint64(g), 5))
	for range rounds {
		p := r.IntN(prompts)
		blocks := promptOf(p, depth)
		engine := make([]uint64, depth)
		for i := range engine {
			engine[i] = uint64(blocks[i])
			if g%3 == 2 {
				engine[i] ^= uint64(g) << 32
			}
		}
		half := r.IntN(depth)
		d := domains[p%2]
		if r.IntN(10) == 0 {
			d = domains[r.IntN(2)]
		}
		first := Store{Worker: w, Domain: d, Tier: Tier(r.IntN(2)), Engine: engine[:half], Blocks: blocks[:half]}
		rest := Store{Worker: w, Domain: d, Engine: engine[half:], Blocks: blocks[half:]}
		if half > 0 {
			rest.HasParent, rest.Parent = true, engine[half-1]
		}
		for _, s := range []Store{first, rest} {
			// Parents in both domains and evicted parents are refused.
			if err := x.Store(s); err != nil && !errors.Is(err, ErrBudget) && !errors.Is(err, ErrUnknownParent) {
				t.Errorf("Store = %v", err)
			}
		}
		switch r.IntN(20) {
		case 0:
			x.Clear(w)
		case 1, 2, 3, 4:
			x.Remove(w, TierUnknown, engine[half:])
		}
	}
}

// TestPrefixesStay evicts step by step: a worker that holds a run also holds all blocks that
// lead to it.
func TestPrefixesStay(t *testing.T) {
	x := New(Config{Seed: 1, MaxBytes: 1 << 30})
	d := x.Domain(DomainKey{})
	r := rand.New(rand.NewPCG(1, 7))
	for g := range 3 {
		w := x.AddWorker()
		for p := range 300 {
			blocks := promptOf(p, 40)
			blocks[20+r.IntN(19)] = Hash(r.Uint32()) // many diverge within the prompt
			engine := make([]uint64, len(blocks))
			for i := range engine {
				engine[i] = uint64(blocks[i]) * uint64(1+g%2)
				if i >= 20 {
					engine[i] += uint64(p) << 8
				}
			}
			mustStore(t, x, Store{Worker: w, Domain: d, Engine: engine, Blocks: blocks})
		}
	}
	x.evictor.mu.Lock()
	defer x.evictor.mu.Unlock()
	rounds := 0
	for ; x.evictor.evictLocked(1); rounds++ {
		for _, p := range []int{3, 4} { // these stay referenced
			x.Match(nil, d, promptOf(p, 40))
		}
		if rounds > 2000 {
			break
		}
		for _, o := range x.workers.list() {
			for _, h := range o.holdings.list {
				if h == nil || h.run.parent.parent == nil {
					continue
				}
				if above := o.on(h.run.parent); above == nil || above.coveredAny < h.run.offset || int(h.coveredAny) != h.end() {
					t.Fatalf("after %d rounds worker %d holds run %d but not all blocks that lead to it", rounds, o.id, h.run.id)
				}
			}
		}
	}
	if rounds < 100 {
		t.Errorf("all was gone after %d rounds", rounds)
	}
	checkIndex(t, x)
}
