package store

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// key is a page of one namespace.
type key struct {
	ns   uint32
	hash proto.Hash
}

// none is no entry.
const none = int32(-1)

// state of an entry: it is free, being filled by exactly one writer, or readable.
type state uint8

const (
	free state = iota
	pending
	ready
)

// entry is one page. Entries are named by their place in index.entries, so that the garbage collector sees one slice
// without pointers however many pages there are.
type entry struct {
	key        key
	offset     int64  // in the arena
	used       uint64 // index.clock at its last use
	parent     int32  // the page before it; valid while parentBirth is that entry's birth
	children   int32  // pages here whose parent it is
	prev, next int32  // in its queue; next also links free entries
	pins       int32  // readers; a pinned page is not evicted
	birth      uint32 // changes with each new page in this entry
	parBirth   uint32
	class      int32
	state      state
	queue      uint8 // probation or protected, while ready
}

// index says which page lies where. It is not safe for concurrent use: Tier.mu guards it. It has no clock and does no I/O, so
// that a trace can be replayed on it.
type index struct {
	entries []entry
	freed   int32 // head of the free entries
	pages   map[key]int32
	names   map[string]uint32
	spaces  map[uint32]*namespace
	next    uint32            // number of the next namespace
	gone    int               // discarded namespaces that still have entries
	leaves  uint64            // of engines, so far
	stamps  map[string]uint64 // of clears, by family; those that are not there were never cleared
	classes []class
	slabs   []slab
	slab    int64 // bytes of a slab
	clock   uint64
	policy  policy
	stats   counters
	feed    feed
}

// counters are what the index counts; all but the gauges only grow.
type counters struct {
	ready, pinned              int64 // pages now; pinned counts pins
	used                       int64 // bytes of pages now
	stored, evicted, orphaned  int64 // orphaned: evicted while a child was here
	promoted, slabsMoved, full int64 // full: pages that found no room
}

// policy is how the index evicts. The zero value is plain LRU.
type policy struct {
	adapt bool // pages that were used again are kept apart from those that were not, in a proportion that is learnt
	chain bool // a use of a page is one of all before it, so that leaves go first
}

var adaptive = policy{adapt: true, chain: true}

func newIndex(slabs int, slabBytes int64, p policy) *index {
	return &index{
		freed: none, pages: map[key]int32{}, names: map[string]uint32{}, spaces: map[uint32]*namespace{}, stamps: map[string]uint64{},
		slabs: make([]slab, slabs), slab: slabBytes, policy: p,
	}
}

// find returns the readable entry of a page, or none.
func (x *index) find(k key) int32 {
	if e, ok := x.pages[k]; ok && x.entries[e].state == ready {
		return e
	}
	return none
}

// prefix returns how many of the pages, which follow each other, are readable from the first on, and counts that as a use.
func (x *index) prefix(ns uint32, hashes []proto.Hash) int {
	if !x.serves(ns) {
		return 0
	}
	n, last := 0, none
	for n < len(hashes) {
		e := x.find(key{ns, hashes[n]})
		if e == none {
			break
		}
		n, last = n+1, e
	}
	if x.policy.chain {
		x.useChain(last, hashes[:n], ns)
		return n
	}
	x.clock++
	for _, h := range hashes[:n] {
		x.use(x.find(key{ns, h}))
	}
	return n
}

// useChain uses pages from the last to the first, and then those before it: whatever a page hangs on is younger than it,
// and so leaves it later.
func (x *index) useChain(last int32, hashes []proto.Hash, ns uint32) {
	if last == none {
		return
	}
	x.clock++
	for _, hash := range slices.Backward(hashes) {
		x.use(x.find(key{ns, hash}))
	}
	x.useAncestors(x.find(key{ns, hashes[0]}))
}

func (x *index) useAncestors(e int32) {
	// A chain has no cycle: a parent is older than its child by birth. The bound is for what a client may claim.
	for range maxChain {
		e = x.parentOf(e)
		if e == none || x.entries[e].used == x.clock {
			return
		}
		x.use(e)
	}
}

// maxChain bounds a walk to the root: 1M tokens in pages of 16.
const maxChain = 1 << 16

// parentOf returns the readable page before e.
func (x *index) parentOf(e int32) int32 {
	p := x.entries[e].parent
	if p == none || x.entries[p].birth != x.entries[e].parBirth || x.entries[p].state != ready {
		return none
	}
	return p
}

// reserve finds room for a page that is not here, for one writer. It returns none where the page is here already, being
// written, or finds no room; present tells the first two.
func (x *index) reserve(ns uint32, h proto.Hash) (e int32, present bool) {
	return x.reserveFor(ns, h, true)
}

// reserveFor is reserve for a page that somebody wants, or that is only expected to be wanted: the latter is on probation, whatever came of it
// before, and teaches nothing.
func (x *index) reserveFor(ns uint32, h proto.Hash, wanted bool) (e int32, present bool) {
	k := key{ns, h}
	if _, ok := x.pages[k]; ok {
		return none, true
	}
	space := x.spaces[ns]
	if space == nil || space.gone {
		return none, false
	}
	class := space.class
	q := uint8(probation)
	if wanted {
		q = x.classes[class].recall(x.policy, k)
	}
	offset, ok := x.slot(class)
	if !ok {
		x.stats.full++
		return none, false
	}
	e = x.alloc()
	n := &x.entries[e]
	*n = entry{key: k, offset: offset, parent: none, prev: none, next: none, birth: n.birth + 1, class: class, queue: q, state: pending}
	x.pages[k] = e
	space.held++
	x.slabOf(offset).hold(offset, x.classes[class].size, x.slab, e)
	return e, false
}

// publish makes written pages readable. The hashes follow each other, the first on parent where that is given; es are their
// reserved entries, none for pages that were here.
func (x *index) publish(ns uint32, hashes []proto.Hash, es []int32, parent *proto.Hash) {
	if !x.serves(ns) {
		for _, e := range es {
			if e != none {
				x.abandon(e)
			}
		}
		return
	}
	x.clock++
	for i, e := range es {
		if e != none {
			x.entries[e].state = ready
			x.link(e, parent)
			x.stats.stored++
			x.stats.ready++
			x.stats.used += int64(x.spaces[ns].bytes)
			x.spaces[ns].pages++
			x.tell(key{ns, hashes[i]}, false)
		}
		parent = &hashes[i]
	}
	first := none
	for i, e := range slices.Backward(es) { // the last first, as in useChain
		if e != none {
			x.entries[e].used = x.clock
			x.push(e, x.entries[e].queue)
			first = e
		} else if e := x.find(key{ns, hashes[i]}); e != none {
			x.use(e)
			first = e
		}
	}
	if first != none && x.policy.chain {
		x.keepAncestors(first)
	}
}

// link says which page is before e.
func (x *index) link(e int32, parent *proto.Hash) {
	if parent == nil {
		return
	}
	n := &x.entries[e]
	if p := x.find(key{n.key.ns, *parent}); p != none && p != e {
		n.parent, n.parBirth = p, x.entries[p].birth
		x.entries[p].children++
	}
}

// keepAncestors makes what a new page hangs on as young as it. That is no second use: a long prompt is stored in several pieces.
func (x *index) keepAncestors(e int32) {
	for range maxChain {
		e = x.parentOf(e)
		if e == none || x.entries[e].used == x.clock {
			return
		}
		x.entries[e].used = x.clock
		q := x.entries[e].queue
		x.unlink(e)
		x.push(e, q)
	}
}

// abandon gives back a page that was reserved and not written.
func (x *index) abandon(e int32) { x.drop(e) }

// pin keeps a readable page where it is until unpin.
func (x *index) pin(e int32) {
	x.entries[e].pins++
	x.stats.pinned++
}

// unpin takes a pin back. The last one of a page whose namespace was discarded ends the page.
func (x *index) unpin(e int32) {
	n := &x.entries[e]
	n.pins--
	x.stats.pinned--
	if n.pins == 0 && !x.serves(n.key.ns) {
		x.drop(e)
	}
}

// alloc returns a free entry.
func (x *index) alloc() int32 {
	if e := x.freed; e != none {
		x.freed = x.entries[e].next
		return e
	}
	x.entries = append(x.entries, entry{})
	return int32(len(x.entries) - 1)
}

// drop forgets a page, which nobody reads, and frees its slot.
func (x *index) drop(e int32) {
	n := &x.entries[e]
	if n.state == ready {
		x.unlink(e)
		x.stats.ready--
		x.stats.used -= int64(x.spaces[n.key.ns].bytes)
		x.spaces[n.key.ns].pages--
		x.tell(n.key, true)
		if p := x.parentOf(e); p != none {
			x.entries[p].children--
		}
	}
	delete(x.pages, n.key)
	c := &x.classes[n.class]
	c.free = append(c.free, n.offset)
	x.slabOf(n.offset).hold(n.offset, c.size, x.slab, none)
	ns := n.key.ns
	*n = entry{birth: n.birth, next: x.freed, state: free}
	x.freed = e
	x.spaces[ns].held--
	x.forget(ns)
}
