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
		blocks += len(r.hashes())
		kids[r.parent]++
		checkRun(tb, x, r)
	})
	x.children.each(func(r *run) {
		if int(r.kids) != kids[r] {
			tb.Fatalf("run %d counts %d children, has %d", r.id, r.kids, kids[r])
		}
	})
	checkPlaces(tb, x)
	x.domains.each(func(d *domain) {
		r := d.root
		if int(r.kids) != kids[r] || len(r.holds) > 0 || len(r.hashes()) > 0 {
			tb.Fatalf("root %d: %d children, want %d; %d holds", r.id, r.kids, kids[r], len(r.holds))
		}
	})
	checkWeights(tb, x)
	if s := x.Stats(); s.Runs != runs || s.Blocks != blocks {
		tb.Fatalf("Stats() = %+v, the tree has %d runs and %d blocks", s, runs, blocks)
	}
	for _, o := range *x.workers.Load() {
		if o != nil {
			checkWorker(tb, x, o)
		}
	}
}

// checkRun checks one linked run.
func checkRun(tb testing.TB, x *Index, r *run) {
	tb.Helper()
	if r.dead.Load() || len(r.holds) == len(r.spare) && r.kids == 0 {
		tb.Fatalf("run %d is linked but nobody needs it", r.id)
	}
	parent := r.parent.hashes()
	if int(r.offset) > len(parent) || r.offset > r.parent.kidTop {
		tb.Fatalf("run %d hangs at %d of %d blocks, kidTop %d", r.id, r.offset, len(parent), r.parent.kidTop)
	}
	have := r.hashes()
	if f := r.face.Load(); have[0] != r.first || x.children.find(r.parent.face.Load(), r.offset, r.first) != f || f.run != r {
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
		if got := r.leadLocked(slot); got != h.lead() {
			tb.Fatalf("run %d slot %d publishes %#x, want %#x", r.id, slot, got, h.lead())
		}
		checkHold(tb, h)
	}
	if words, l := r.face.Load().words(); (l != nil || words[0].Load() != 0) && len(r.holds) == 0 || len(r.spare) > len(r.holds) {
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
	if h.odd != nil {
		for _, words := range h.odd.has {
			for _, v := range words {
				live += bits.OnesCount64(v)
			}
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
		return h.tierWord(TierGPU, i/64)>>(i%64)&1 == 1
	})
	if int(h.live) != live || live == 0 || h.leadAny != anyTier || h.leadGPU != gpu {
		tb.Fatalf("hold of worker %d on run %d: live %d leads %d/%d, want %d %d/%d",
			h.worker, h.run.id, h.live, h.leadAny, h.leadGPU, live, anyTier, gpu)
	}
}

// checkWorker compares a worker's table with its holds.
func checkWorker(tb testing.TB, x *Index, o *worker) {
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
		extra := h.odd.more[moreKey(k.offset, Tier(k.tier))]
		if !bit(h.odd.has[k.tier], k.offset) || int(extra) != n-1 {
			tb.Fatalf("worker %d: %d names of block %+v, hold counts %d more", o.id, n, k, extra)
		}
	}
	checkNamed(tb, x, o, live)
	for i, h := range o.holds {
		if h != nil && (int(h.handle) != i || int(h.live) != live[h.handle]) {
			tb.Fatalf("worker %d: hold %d has %d bits, table says %d", o.id, i, h.live, live[h.handle])
		}
	}
}

// checkNamed checks what a worker holds by name, and adds it to live.
func checkNamed(tb testing.TB, x *Index, o *worker, live map[uint32]int) {
	tb.Helper()
	named, mapped := 0, 0
	for _, h := range o.holds {
		if h == nil {
			continue
		}
		if !h.own {
			mapped++
		}
		if o.holdOn(h.run) != h {
			tb.Fatalf("worker %d: its hold on run %d is not found", o.id, h.run.id)
		}
		names := h.run.listed()
		for i := range h.run.hashes() {
			n := h.copies(uint32(i))
			if n == (copies{}) {
				continue
			}
			named++
			for _, v := range n {
				live[h.handle] += int(v)
			}
			if r, at := x.places.find(names[i]); r != h.run || int(at) != i || !r.named(at, names[i]) || o.table.find(names[i]) != nil {
				tb.Fatalf("worker %d: block %d of run %d is held by a name that has no place there", o.id, i, h.run.id)
			}
		}
	}
	if named != o.named || mapped != len(o.onRun) {
		tb.Fatalf("worker %d: %d names and %d holds by run, counts %d and %d", o.id, named, mapped, o.named, len(o.onRun))
	}
}

// checkPlaces compares the places with what the runs have claimed.
func checkPlaces(tb testing.TB, x *Index) {
	tb.Helper()
	have, used, slots, want := 0, 0, 0, 0
	for i := range x.places.stripes {
		s := x.places.stripes[i].slots
		slots += len(s)
		for _, v := range s {
			if v != 0 {
				used++
				if !x.places.stale(v) {
					have++
				}
			}
		}
	}
	x.children.each(func(r *run) {
		names := r.listed()
		for i := range r.claimed {
			if !r.named(i, names[i]) {
				continue
			}
			want++
			if at, offset := x.places.find(names[i]); at != r || offset != i {
				tb.Fatalf("name %#x of run %d block %d is not found", names[i], r.id, i)
			}
		}
	})
	p := &x.places
	if have != want || int64(have) != p.live.Load() || int64(used) != p.used.Load() || int64(slots) != p.slots.Load() {
		tb.Fatalf("%d places, %d with stale ones, in %d slots; want %d; counted are %d, %d and %d",
			have, used, slots, want, p.live.Load(), p.used.Load(), p.slots.Load())
	}
}
