package radix

import (
	"math/bits"
	"testing"
)

// checkIndex walks a quiet index and compares all that it has in two places.
func checkIndex(tb testing.TB, x *Index) {
	tb.Helper()
	runs, blocks := 0, 0
	children := map[*run]int{}
	x.tree.children.all(func(r *run) {
		runs++
		blocks += len(r.hashes())
		children[r.parent]++
		checkRun(tb, x, r)
	})
	x.tree.children.all(func(r *run) {
		if int(r.children) != children[r] {
			tb.Fatalf("run %d counts %d children, has %d", r.id, r.children, children[r])
		}
	})
	checkBlockTable(tb, x)
	x.tree.domains.all(func(d *domain) {
		r := d.root
		if int(r.children) != children[r] || len(r.holders.slots) > 0 || len(r.hashes()) > 0 {
			tb.Fatalf("root %d: %d children, want %d; %d holders",
				r.id, r.children, children[r], len(r.holders.slots))
		}
	})
	checkBytes(tb, x)
	if s := x.Stats(); s.Runs != runs || s.Blocks != blocks {
		tb.Fatalf("Stats() = %+v, the tree has %d runs and %d blocks", s, runs, blocks)
	}
	for _, w := range x.workers.list() {
		if w != nil {
			checkWorker(tb, x, w)
		}
	}
}

// checkRun checks one linked run.
func checkRun(tb testing.TB, x *Index, r *run) {
	tb.Helper()
	v, slots := r.view.Load(), r.holders.slots
	if r.dead.Load() || r.holders.count() == 0 && r.children == 0 {
		tb.Fatalf("run %d is linked without holders and children", r.id)
	}
	parent := r.parent.hashes()
	if int(r.offset) > len(parent) || r.offset > r.parent.maxChildOffset {
		tb.Fatalf("run %d hangs at %d of %d blocks, maxChildOffset %d",
			r.id, r.offset, len(parent), r.parent.maxChildOffset)
	}
	have := r.hashes()
	if have[0] != r.first || x.tree.children.find(r.parent.view.Load(), r.offset, r.first) != v || v.run != r {
		tb.Fatalf("run %d is not found by its key", r.id)
	}
	if int(r.offset) < len(parent) && parent[r.offset] == r.first {
		tb.Fatalf("run %d repeats the next block of its parent", r.id)
	}
	workers := map[Worker]bool{}
	for slot, h := range slots {
		if h == nil {
			continue
		}
		if workers[h.worker] {
			tb.Fatalf("worker %d holds run %d twice", h.worker, r.id)
		}
		workers[h.worker] = true
		if h.run != r || int(h.slot) != slot || h.end() > len(have) {
			tb.Fatalf("run %d slot %d: holding at slot %d, end %d of %d blocks",
				r.id, slot, h.slot, h.end(), len(have))
		}
		if got := v.coverage(slot); got != h.coverage() {
			tb.Fatalf("run %d slot %d publishes %#x, want %#x", r.id, slot, got, h.coverage())
		}
		checkHolding(tb, h)
	}
	if words, t := v.coverages(); (t != nil || words[0].Load() != 0) && len(slots) == 0 || len(r.holders.free) > len(slots) {
		tb.Fatalf("run %d has coverage words without holders", r.id)
	}
}

// checkHolding recounts a holding's bits.
func checkHolding(tb testing.TB, h *holding) {
	tb.Helper()
	blocks := 0
	for _, words := range h.listed {
		for _, v := range words {
			blocks += bits.OnesCount64(v)
		}
	}
	if h.entries != nil {
		for _, words := range h.entries.tiers {
			for _, v := range words {
				blocks += bits.OnesCount64(v)
			}
		}
	}
	covered := func(has func(i int) bool) (n uint32) {
		for n < maxRun && has(int(n)) {
			n++
		}
		return n
	}
	anyTier := covered(func(i int) bool { return h.word(i/64)>>(i%64)&1 == 1 })
	gpu := covered(func(i int) bool { return h.tierWord(TierGPU, i/64)>>(i%64)&1 == 1 })
	if int(h.blocks) != blocks || blocks == 0 || h.coveredAny != anyTier || h.coveredGPU != gpu {
		tb.Fatalf("holding of worker %d on run %d: %d blocks, covers %d/%d, want %d %d/%d",
			h.worker, h.run.id, h.blocks, h.coveredAny, h.coveredGPU, blocks, anyTier, gpu)
	}
}

// tierBlock is a block of a worker's holding in a tier.
type tierBlock struct {
	handle, offset uint32
	tier           int
}

// checkWorker compares a worker's entries with its holdings.
func checkWorker(tb testing.TB, x *Index, w *worker) {
	tb.Helper()
	entries, aliases, hashes := 0, 0, map[tierBlock]int{}
	for _, e := range w.entries.slots {
		if e.empty() {
			continue
		}
		entries++
		if e.handle == aliased {
			checkAlias(tb, w, e.key, hashes)
			aliases++
			continue
		}
		if got := w.entries.find(e.key); got == nil || *got != e {
			tb.Fatalf("worker %d: entry %#x is not found", w.id, e.key)
		}
		for tier, n := range e.copies {
			if n > 0 {
				hashes[tierBlock{e.handle, e.offset, tier}]++
			}
		}
	}
	if aliases != len(w.aliases) || len(w.deferred) > 0 {
		tb.Fatalf("worker %d: %d aliases, want %d; %d deferred changes",
			w.id, len(w.aliases), aliases, len(w.deferred))
	}
	if entries != w.entries.len {
		tb.Fatalf("worker %d: %d entries, the table counts %d", w.id, entries, w.entries.len)
	}
	blocks := map[uint32]int{}
	for k, n := range hashes {
		h := w.holdings.list[k.handle]
		blocks[k.handle]++
		extra := h.entries.extra[extraKey(k.offset, Tier(k.tier))]
		if !bit(h.entries.tiers[k.tier], k.offset) || int(extra) != n-1 {
			tb.Fatalf("worker %d: %d engine hashes of block %+v, the holding counts %d more",
				w.id, n, k, extra)
		}
	}
	checkListed(tb, x, w, blocks)
	for i, h := range w.holdings.list {
		if h != nil && (int(h.handle) != i || int(h.blocks) != blocks[h.handle]) {
			tb.Fatalf("worker %d: holding %d has %d bits, want %d",
				w.id, i, h.blocks, blocks[h.handle])
		}
	}
}

// checkAlias checks an alias and counts its blocks.
func checkAlias(tb testing.TB, w *worker, key uint64, hashes map[tierBlock]int) {
	tb.Helper()
	a := w.aliases[key]
	if len(a.blocks) < 2 {
		tb.Fatalf("worker %d: alias %#x has %d blocks", w.id, key, len(a.blocks))
	}
	for i := range a.blocks {
		b := &a.blocks[i]
		hashes[tierBlock{b.holding.handle, b.offset, tiers}]++
		for tier := range Tier(tiers) {
			if a.credited(b, tier) {
				hashes[tierBlock{b.holding.handle, b.offset, int(tier)}]++
			}
		}
	}
}

// checkListed checks a worker's listed copies and adds them to blocks.
func checkListed(tb testing.TB, x *Index, w *worker, blocks map[uint32]int) {
	tb.Helper()
	listed, mapped := 0, 0
	for _, h := range w.holdings.list {
		if h == nil {
			continue
		}
		if !h.first {
			mapped++
		}
		if w.on(h.run) != h {
			tb.Fatalf("worker %d: its holding on run %d is not found", w.id, h.run.id)
		}
		hashes := h.run.listed()
		for i := range h.run.hashes() {
			n := h.listedCopies(uint32(i))
			if n == (copies{}) {
				continue
			}
			listed++
			for _, v := range n {
				blocks[h.handle] += int(v)
			}
			r, at := x.tree.blocks.find(hashes[i])
			if r != h.run || int(at) != i || !r.lists(at, hashes[i]) || w.entries.find(hashes[i]) != nil {
				tb.Fatalf("worker %d: block %d of run %d has a listed copy, and an engine hash of another block", w.id, i, h.run.id)
			}
		}
	}
	if listed != w.listed || mapped != len(w.holdings.byRun) {
		tb.Fatalf("worker %d: %d listed copies and %d holdings by run, counts %d and %d",
			w.id, listed, mapped, w.listed, len(w.holdings.byRun))
	}
}

// checkBlockTable compares the block table with the engine hashes that the runs list.
func checkBlockTable(tb testing.TB, x *Index) {
	tb.Helper()
	t := &x.tree.blocks
	live, used, slots, want := 0, 0, 0, 0
	for i := range t.stripes {
		s := t.stripes[i].slots
		slots += len(s)
		for _, v := range s {
			if v != 0 {
				used++
				if !staleSlot(*t.runs.chunks.Load(), v) {
					live++
				}
			}
		}
	}
	x.tree.children.all(func(r *run) {
		hashes := r.listed()
		for i := range r.inserted {
			if !r.lists(i, hashes[i]) {
				continue
			}
			want++
			if at, offset := t.find(hashes[i]); at != r || offset != i {
				tb.Fatalf("engine hash %#x of run %d block %d is not found", hashes[i], r.id, i)
			}
		}
	})
	if live != want || int64(live) != t.live.Load() || int64(used) != t.used.Load() || int64(slots) != t.slots.Load() {
		tb.Fatalf("%d live slots of %d used of %d, want %d live; counts %d, %d and %d",
			live, used, slots, want, t.live.Load(), t.used.Load(), t.slots.Load())
	}
}
