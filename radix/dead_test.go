package radix

import (
	"sync"
	"testing"
)

// TestDeadRunIsReplaced stops the freeing of a run while it is dead and still linked, and
// stores the same blocks: they must go to a new run, which the rest of the freeing must not
// touch.
func TestDeadRunIsReplaced(t *testing.T) {
	tests := []struct {
		name   string
		parent []Hash // held by worker 1 before the run that dies
		blocks []Hash
	}{
		{name: "below a root", blocks: chain(1, 2, 3)},
		{name: "at the end of a run", parent: chain(7, 8), blocks: chain(1, 2, 3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Seed: 1})
			d := x.Domain(DomainKey{})
			dying, next := x.AddWorker(), x.AddWorker()
			full := append(append([]Hash(nil), tt.parent...), tt.blocks...)
			engine := hashesOf(1, 2, 3, 4, 5)[:len(full)]
			at := x.tree.domains.root(d).run
			if n := len(tt.parent); n > 0 {
				mustStore(t, x, Store{Worker: next, Domain: d, Engine: engine[:n], Blocks: tt.parent})
				at = x.tree.children.find(at.view.Load(), 0, tt.parent[0]).run
				at.sealed = true // so that the blocks become a child
			}
			mustStore(t, x, Store{Worker: dying, Domain: d, Engine: engine, Blocks: full})
			r := x.tree.children.find(at.view.Load(), uint32(len(tt.parent)), tt.blocks[0]).run
			at.sealed = false

			// Clear up to the unlinking of this run.
			o := x.workers.lock(dying)
			h := o.on(r)
			r.removeHolderLocked(h)
			if !r.freeLocked(&x.tree) {
				t.Fatal("the run does not die")
			}
			mustStore(t, x, Store{Worker: next, Domain: d, Engine: engine, Blocks: full})
			mustStore(t, x, Store{Worker: next, Domain: d, Engine: engine, Blocks: full})
			got := x.Match(nil, d, full)
			sortOverlaps(got)
			if len(got) == 0 || got[len(got)-1] != (Overlap{next, int32(len(full)), int32(len(full))}) {
				t.Errorf("Match = %v beside a dead run, want worker 1 with %d blocks",
					got, len(full))
			}
			// The rest of Clear.
			x.tree.children.remove(r)
			at.mu.Lock()
			at.children--
			x.tree.unlockRun(at)
			o.holdings.list[h.handle] = nil
			x.tree.clearLocked(o)
			o.unlock()
			if got := x.Match(nil, d, full); len(got) != 1 || got[0] != (Overlap{next, int32(len(full)), int32(len(full))}) {
				t.Errorf("Match = %v after it, want worker 1 with %d blocks", got, len(full))
			}
			checkIndex(t, x)
			x.Clear(next)
			if s := x.Stats(); s.Runs+s.Blocks+s.Holds > 0 {
				t.Errorf("Stats() = %+v of the emptied index", s)
			}
		})
	}
}

// TestRunsDieUnderWriters has writers store and drop the same few blocks, so that runs die
// between a writer's look-up and its lock. No worker may lose a block.
func TestRunsDieUnderWriters(t *testing.T) {
	const writers = 4
	x := New(Config{Seed: 1, Stripes: 1})
	d := x.Domain(DomainKey{})
	c, engine := chain(1, 2, 3), hashesOf(1, 2, 3)
	var wg sync.WaitGroup
	for range writers {
		w := x.AddWorker()
		wg.Go(func() {
			var buf []Overlap
			for range deadRuns {
				if err := x.Store(Store{Worker: w, Domain: d, Engine: engine, Blocks: c}); err != nil {
					t.Errorf("Store = %v", err)
				}
				buf = x.Match(buf[:0], d, c)
				held := 0
				for _, o := range buf {
					if o.Worker == w {
						held = int(o.Blocks)
					}
				}
				if held != len(c) {
					t.Errorf("worker %d holds %d blocks after its store, want %d", w, held, len(c))
					return
				}
				if n := x.Remove(w, TierGPU, engine); n > 0 {
					t.Errorf("Remove = %d", n)
				}
			}
		})
	}
	wg.Wait()
	checkIndex(t, x)
	if s := x.Stats(); s.Runs+s.Blocks+s.Holds+s.Entries > 0 {
		t.Errorf("Stats() = %+v of the emptied index", s)
	}
}
