package store

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// The queues of a size class. New pages are on probation; a page that is used again is protected.
// So a prompt that comes once, however long, passes through probation only. The share of
// probation adapts as in ARC (Megiddo and Modha, "ARC: a self-tuning, low overhead replacement
// cache", FAST 2003): a page that returns soon after its eviction from a queue shows that this
// queue should have been longer. A fixed share is worse than plain LRU on conversations, whose
// turns are used once more and then never again; see TestPolicyOnTrace.
const (
	probation = iota
	protected
	queues
)

// evictor gives pages slots of the arena, and evicts pages where none is free.
type evictor struct {
	table     *pageTable
	clock     uint64 // uses so far
	classes   []sizeClass
	slabs     []slab
	slabBytes int64
	drop      func(e int32) // removes an evicted page from the index
	stats     evictStats
}

// evictStats only grow.
type evictStats struct {
	evicted, orphaned    int64 // orphaned: evicted before a child
	promoted, slabsMoved int64 // from probation; between size classes
}

// sizeClass is all pages of one size. Each class has slabs of its own, so that an evicted page
// makes room for another without a copy.
type sizeClass struct {
	size   int64   // bytes of a slot
	slabs  int     // number of its slabs
	free   []int64 // offsets of free slots
	queue  [queues]queue
	ghosts [queues]ghosts // pages evicted from each queue
	target int            // pages that probation should have
}

// queue lists pages by last use, the least recently used one last.
type queue struct {
	head, tail int32
	count      int
}

// classOf returns the class of a page size, which it adds where it is new.
func (v *evictor) classOf(bytes int) int32 {
	size := (int64(bytes) + slotAlign - 1) / slotAlign * slotAlign
	for i := range v.classes {
		if v.classes[i].size == size {
			return int32(i)
		}
	}
	empty := queue{head: none, tail: none}
	v.classes = append(v.classes, sizeClass{size: size, queue: [queues]queue{empty, empty}})
	return int32(len(v.classes) - 1)
}

// slot returns a free slot of a class. It takes, in this order: a free slot, a free slab, a slab
// of a class with older pages, the slot of the class's own victim.
func (v *evictor) slot(c int32) (offset int64, ok bool) {
	own := &v.classes[c]
	if len(own.free) == 0 && !v.takeSlab(c) {
		victim := v.victim(c)
		if other := v.older(c, victim); other != none && v.moveSlab(other, c) {
			v.stats.slabsMoved++
		} else if victim != none {
			v.evict(victim)
		}
	}
	n := len(own.free)
	if n == 0 {
		return 0, false
	}
	offset = own.free[n-1]
	own.free = own.free[:n-1]
	return offset, true
}

// victim returns the page of a class to evict next, or none where all are pinned.
func (v *evictor) victim(c int32) int32 {
	const tries = 8 // leaves first; by the order of use nearly every last page is a leaf
	entries, best := v.table.entries, none
	for _, q := range v.classes[c].order() {
		e := v.classes[c].queue[q].tail
		for n := 0; e != none && n < tries; e = entries[e].prev {
			if entries[e].pins > 0 {
				continue
			}
			if entries[e].children == 0 {
				return e
			}
			if best == none {
				best = e
			}
			n++
		}
	}
	return best
}

// order returns the queues in the order in which they give up pages.
func (c *sizeClass) order() [queues]int {
	if c.queue[probation].count <= c.target && c.queue[protected].count > 0 {
		return [queues]int{protected, probation}
	}
	return [queues]int{probation, protected}
}

// recall returns the queue of a new page. A page that was evicted not long ago is protected, and
// adapts the target.
func (c *sizeClass) recall(k key) uint8 {
	evicted := [queues]int{len(c.ghosts[probation].seen), len(c.ghosts[protected].seen)}
	switch {
	case c.ghosts[probation].take(k):
		total := c.queue[probation].count + c.queue[protected].count
		c.target = min(total, c.target+max(1, evicted[protected]/evicted[probation]))
	case c.ghosts[protected].take(k):
		c.target = max(0, c.target-max(1, evicted[probation]/evicted[protected]))
	default:
		return probation
	}
	return protected
}

func (v *evictor) evict(e int32) {
	n := &v.table.entries[e]
	v.stats.evicted++
	if n.children > 0 {
		v.stats.orphaned++
	}
	c := &v.classes[n.class]
	c.ghosts[n.queue].add(n.key, c.queue[probation].count+c.queue[protected].count)
	v.drop(e)
}

// useChain counts a use of a chain of pages, from the last to the first and then of the pages
// before them: a page is always younger than its children, and so is evicted later.
func (v *evictor) useChain(ns uint32, hashes []proto.Hash) {
	if len(hashes) == 0 {
		return
	}
	v.clock++
	for _, h := range slices.Backward(hashes) {
		v.use(v.table.find(key{ns, h}))
	}
	v.ancestors(v.table.find(key{ns, hashes[0]}), v.use)
}

// maxChain bounds a walk to the root: 1M tokens in pages of 16. Chains have no cycles, as a
// parent was readable before its child.
const maxChain = 1 << 16

// ancestors calls f for the pages before e, up to the first that was used at the present clock.
func (v *evictor) ancestors(e int32, f func(e int32)) {
	for range maxChain {
		e = v.table.parentOf(e)
		if e == none || v.table.entries[e].used == v.clock {
			return
		}
		f(e)
	}
}

// addChain queues pages that became readable, and counts a use of those that were present before.
func (v *evictor) addChain(ns uint32, hashes []proto.Hash, es []int32) {
	v.clock++
	first := none
	for i, e := range slices.Backward(es) { // the last first, as in useChain
		if e != none {
			v.table.entries[e].used = v.clock
			v.push(e, v.table.entries[e].queue)
			first = e
		} else if e := v.table.find(key{ns, hashes[i]}); e != none {
			v.use(e)
			first = e
		}
	}
	if first != none {
		v.ancestors(first, v.touch)
	}
}

// use moves a page to the head of the protected queue.
func (v *evictor) use(e int32) {
	n := &v.table.entries[e]
	n.used = v.clock
	v.unlink(e)
	if n.queue == probation {
		v.stats.promoted++
	}
	v.push(e, protected)
}

// touch moves a page to the head of its queue. That is no second use: long prompts are stored in
// several batches.
func (v *evictor) touch(e int32) {
	n := &v.table.entries[e]
	n.used = v.clock
	q := n.queue
	v.unlink(e)
	v.push(e, q)
}

func (v *evictor) push(e int32, q uint8) {
	entries := v.table.entries
	n := &entries[e]
	list := &v.classes[n.class].queue[q]
	n.queue, n.prev, n.next = q, none, list.head
	if list.head != none {
		entries[list.head].prev = e
	} else {
		list.tail = e
	}
	list.head = e
	list.count++
}

func (v *evictor) unlink(e int32) {
	entries := v.table.entries
	n := &entries[e]
	list := &v.classes[n.class].queue[n.queue]
	if n.prev != none {
		entries[n.prev].next = n.next
	} else {
		list.head = n.next
	}
	if n.next != none {
		entries[n.next].prev = n.prev
	} else {
		list.tail = n.prev
	}
	list.count--
}
