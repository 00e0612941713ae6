package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// index maps pages to arena offsets and decides which pages to evict. It is not safe for concurrent
// use: pages.mu guards it. It has no clock and does no I/O, so that a trace can be replayed on it.
type index struct {
	table   pageTable
	evictor evictor
	spaces  namespaces
	changes changeLog
	stats   indexStats
}

// indexStats are counters, except for the first line.
type indexStats struct {
	ready, pinned, used int64 // pages, pins and bytes of pages now
	stored, full        int64 // full: pages without room
}

func newIndex(slabs int, slabBytes int64) *index {
	x := &index{table: pageTable{freeHead: none, byKey: map[key]int32{}}}
	x.evictor = evictor{table: &x.table, slabs: make([]slab, slabs), slabBytes: slabBytes, drop: x.drop}
	x.changes = changeLog{table: &x.table, spaces: &x.spaces}
	x.spaces = namespaces{
		evictor: &x.evictor, changes: &x.changes, byName: map[string]uint32{}, byID: map[uint32]*namespace{}, cleared: map[string]uint64{},
	}
	return x
}

// leading returns the number of leading pages of a chain that are readable.
func (x *index) leading(ns uint32, hashes []proto.Hash) (n int) {
	if !x.spaces.serves(ns) {
		return 0
	}
	for n < len(hashes) && x.table.find(key{ns, hashes[n]}) != none {
		n++
	}
	return n
}

// prefix is leading, and counts a use of these pages.
func (x *index) prefix(ns uint32, hashes []proto.Hash) int {
	n := x.leading(ns, hashes)
	x.evictor.useChain(ns, hashes[:n])
	return n
}

// reserve finds room for a page that is absent, for one writer. e is none where the page is
// present, pending, or finds no room; present tells the first two. A prefetched page is always on
// probation, and does not adapt the eviction policy.
func (x *index) reserve(ns uint32, h proto.Hash, prefetched bool) (e int32, present bool) {
	k := key{ns, h}
	if _, ok := x.table.byKey[k]; ok {
		return none, true
	}
	space := x.spaces.byID[ns]
	if space == nil || space.discarded {
		return none, false
	}
	q := uint8(probation)
	if !prefetched {
		q = x.evictor.classes[space.class].recall(k)
	}
	offset, ok := x.evictor.slot(space.class)
	if !ok {
		x.stats.full++
		return none, false
	}
	e = x.table.add(k, offset, space.class, q)
	space.held++
	x.evictor.occupy(offset, space.class, e)
	return e, false
}

// publish makes written pages readable. The hashes are a chain, behind parent where that is
// given; es are the reserved entries, none for pages that were present.
func (x *index) publish(ns uint32, hashes []proto.Hash, es []int32, parent *proto.Hash) {
	if !x.spaces.serves(ns) {
		for _, e := range es {
			if e != none {
				x.drop(e)
			}
		}
		return
	}
	space := x.spaces.byID[ns]
	for i, e := range es {
		if e != none {
			x.table.entries[e].state = ready
			x.table.setParent(e, parent)
			x.stats.stored++
			x.stats.ready++
			x.stats.used += int64(space.bytes)
			space.pages++
			x.changes.record(key{ns, hashes[i]}, false)
		}
		parent = &hashes[i]
	}
	x.evictor.addChain(ns, hashes, es)
}

// pin keeps a readable page in its slot until unpin.
func (x *index) pin(e int32) {
	x.table.entries[e].pins++
	x.stats.pinned++
}

// unpin takes a pin back. The last unpin drops a page of a discarded namespace.
func (x *index) unpin(e int32) {
	n := &x.table.entries[e]
	n.pins--
	x.stats.pinned--
	if n.pins == 0 && !x.spaces.serves(n.key.ns) {
		x.drop(e)
	}
}

// drop removes a page that is pending, or ready and not pinned, and frees its slot.
func (x *index) drop(e int32) {
	n := &x.table.entries[e]
	ns := n.key.ns
	space := x.spaces.byID[ns]
	if n.state == ready {
		x.evictor.unlink(e)
		x.stats.ready--
		x.stats.used -= int64(space.bytes)
		space.pages--
		x.changes.record(n.key, true)
		if p := x.table.parentOf(e); p != none {
			x.table.entries[p].children--
		}
	}
	x.evictor.vacate(n.offset, n.class)
	x.table.remove(e)
	space.held--
	x.spaces.forget(ns)
}

// collectStep bounds the entries scanned under the lock at once: some 0.2 ms.
const collectStep = 2048

// collect drops pages of discarded namespaces, from an entry on, and returns the next entry to
// scan or -1. Pinned and pending pages are dropped by their readers and writers.
func (x *index) collect(from int) (next int) {
	if x.spaces.discarded == 0 {
		return -1
	}
	for e := from; e < len(x.table.entries); e++ {
		if e == from+collectStep {
			return e
		}
		n := &x.table.entries[e]
		if n.state == ready && n.pins == 0 && x.spaces.byID[n.key.ns].discarded {
			x.drop(int32(e))
		}
	}
	return -1
}
