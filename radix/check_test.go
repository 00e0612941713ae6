package radix

import (
	"math/bits"
	"testing"
)

// checkIndex walks a quiet index and compares everything that is kept twice.
func checkIndex(tb testing.TB, x *Index) {
	tb.Helper()
	runs, blocks := 0, 0
	kids := map[*run]int{}
	x.children.each(func(r *run) {
		runs++
		blocks += len(*r.blocks.Load())
		kids[r.parent]++
		checkRun(tb, x, r)
	})
	x.children.each(func(r *run) {
		if r.kids != kids[r] {
			tb.Fatalf("run %d counts %d children, has %d", r.id, r.kids, kids[r])
		}
	})
	for _, r := range *x.roots.Load() {
		if r.kids != kids[r] || len(r.holds) > 0 || len(*r.blocks.Load()) > 0 {
			tb.Fatalf("root %d: %d children, want %d; %d holds", r.id, r.kids, kids[r], len(r.holds))
		}
	}
	if s := x.Stats(); s.Runs != runs || s.Blocks != blocks {
		tb.Fatalf("Stats() = %+v, the tree has %d runs and %d blocks", s, runs, blocks)
	}
	for _, o := range *x.workers.Load() {
		if o != nil {
			checkWorker(tb, o)
		}
	}
}

// checkRun checks one linked run.
func checkRun(tb testing.TB, x *Index, r *run) {
	tb.Helper()
	if r.dead.Load() || len(r.holds) == len(r.spare) && r.kids == 0 {
		tb.Fatalf("run %d is linked but nobody needs it", r.id)
	}
	parent := *r.parent.blocks.Load()
	if int(r.offset) > len(parent) || r.offset > r.parent.kidTop {
		tb.Fatalf("run %d hangs at %d of %d blocks, kidTop %d", r.id, r.offset, len(parent), r.parent.kidTop)
	}
	have := *r.blocks.Load()
	if have[0] != r.first || x.children.find(r.parent, r.offset, r.first) != r {
		tb.Fatalf("run %d is not found by its key", r.id)
	}
	if int(r.offset) < len(parent) && parent[r.offset] == r.first {
		tb.Fatalf("run %d repeats the block that its parent goes on with", r.id)
	}
	holders := map[Worker]bool{}
	for slot, h := range r.holds {
		if h == nil {
			continue
		}
		if holders[h.worker] {
			tb.Fatalf("worker %d holds run %d twice", h.worker, r.id)
		}
		holders[h.worker] = true
		if h.run != r || int(h.slot) != slot || h.top() > len(have) {
			tb.Fatalf("run %d slot %d: hold at slot %d, top %d of %d blocks", r.id, slot, h.slot, h.top(), len(have))
		}
		if got := r.leads.Load().words[slot].Load(); got != h.lead() {
			tb.Fatalf("run %d slot %d publishes %#x, want %#x", r.id, slot, got, h.lead())
		}
		checkHold(tb, h)
	}
	if r.leads.Load() != nil && len(r.holds) == 0 || len(r.spare) > len(r.holds) {
		tb.Fatalf("run %d keeps leads without holds", r.id)
	}
}

// checkHold recounts a hold's bits.
func checkHold(tb testing.TB, h *hold) {
	tb.Helper()
	live := 0
	for _, words := range h.has {
		for _, v := range words {
			live += bits.OnesCount64(v)
		}
	}
	lead := func(has func(i int) bool) (n uint32) {
		for n < maxRun && has(int(n)) {
			n++
		}
		return n
	}
	anyTier := lead(func(i int) bool { return h.word(i/64)>>(i%64)&1 == 1 })
	gpu := lead(func(i int) bool {
		return i/64 < len(h.has[TierGPU]) && h.has[TierGPU][i/64]>>(i%64)&1 == 1
	})
	if h.live != live || live == 0 || h.leadAny != anyTier || h.leadGPU != gpu {
		tb.Fatalf("hold of worker %d on run %d: live %d leads %d/%d, want %d %d/%d",
			h.worker, h.run.id, h.live, h.leadAny, h.leadGPU, live, anyTier, gpu)
	}
}

// checkWorker compares a worker's table with its holds.
func checkWorker(tb testing.TB, o *worker) {
	tb.Helper()
	type key struct {
		handle, offset uint32
		tier           int
	}
	entries, aliases, names := 0, 0, map[key]int{}
	for _, e := range o.table.slots {
		if e.empty() {
			continue
		}
		entries++
		if e.handle == aliased {
			a := o.aliases[e.key]
			if len(a.places) < 2 {
				tb.Fatalf("worker %d: alias %#x has %d places", o.id, e.key, len(a.places))
			}
			for i := range a.places {
				p := &a.places[i]
				names[key{p.hold.handle, p.offset, tiers}]++
				for tier := range Tier(tiers) {
					if a.credited(p, tier) {
						names[key{p.hold.handle, p.offset, int(tier)}]++
					}
				}
			}
			aliases++
			continue
		}
		if got := o.table.find(e.key); got == nil || *got != e {
			tb.Fatalf("worker %d: entry %#x is not found", o.id, e.key)
		}
		for tier, n := range e.n {
			if n > 0 {
				names[key{e.handle, e.offset, tier}]++
			}
		}
	}
	if aliases != len(o.aliases) || len(o.later) > 0 {
		tb.Fatalf("worker %d: %d aliases, want %d; %d changes left", o.id, len(o.aliases), aliases, len(o.later))
	}
	if entries != o.table.len {
		tb.Fatalf("worker %d: %d entries, table says %d", o.id, entries, o.table.len)
	}
	live := map[uint32]int{}
	for k, n := range names {
		h := o.holds[k.handle]
		live[k.handle]++
		extra := h.more[moreKey(k.offset, Tier(k.tier))]
		if h.has[k.tier][k.offset/64]>>(k.offset%64)&1 == 0 || int(extra) != n-1 {
			tb.Fatalf("worker %d: %d names of block %+v, hold counts %d more", o.id, n, k, extra)
		}
	}
	for i, h := range o.holds {
		if h != nil && (int(h.handle) != i || h.live != live[h.handle]) {
			tb.Fatalf("worker %d: hold %d has %d bits, table says %d", o.id, i, h.live, live[h.handle])
		}
	}
}
