package approx

import (
	"slices"
	"sort"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// node is a stretch of keys that the same workers hold. Where prompts part, it is split, as SGLang splits its own nodes: so each
// part ages by itself.
type node struct {
	id      uint64 // names the node in the child table
	parent  *node
	chained *node // next in the bucket
	run     []Key
	holders []holder // by serial; a subset of the parent's, and never empty
}

// holder is one worker of a node. Its owner's numbers are repeated here so that a look-up reads one array.
type holder struct {
	serial uint32
	worker Worker
	hold   *hold
}

const (
	nodeBytes   = int64(unsafe.Sizeof(node{}))
	holderBytes = int64(unsafe.Sizeof(holder{}))
	keyBytes    = int64(unsafe.Sizeof(Key(0)))
	// minRunBytes is what the shortest run costs: the allocator puts two of 8 bytes into one block and frees them together.
	minRunBytes = 16
)

// bytes is what the node keeps besides holds. Capacities come from append, which rounds them up to the allocator's size classes.
func (n *node) bytes() int64 {
	return nodeBytes + max(int64(cap(n.run))*keyBytes, minRunBytes) + int64(cap(n.holders))*holderBytes
}

// bucket is where the child of the node id that begins with k hangs.
func (t *Tree) bucket(id uint64, k Key) **node {
	h := keyed.Fold(uint64(k)^t.keys[keyChild], id^t.keys[keyMix])
	return &t.buckets[h&uint64(len(t.buckets)-1)]
}

// child returns the child of n that begins with k, or nil.
func (t *Tree) child(n *node, k Key) *node {
	c := *t.bucket(n.id, k)
	for c != nil && (c.parent != n || c.run[0] != k) {
		c = c.chained
	}
	return c
}

// linkLocked hangs n below its parent.
func (t *Tree) linkLocked(n *node) {
	b := t.bucket(n.parent.id, n.run[0])
	n.chained, *b = *b, n
}

// unlinkLocked takes n from below its parent.
func (t *Tree) unlinkLocked(n *node) {
	b := t.bucket(n.parent.id, n.run[0])
	for *b != n {
		b = &(*b).chained
	}
	*b, n.chained = n.chained, nil
}

// newNodeLocked returns a node with a copy of run below parent; it must get a holder.
func (t *Tree) newNodeLocked(parent *node, run []Key) *node {
	t.stats.Nodes++
	t.lastID++
	n := t.spares.node(len(run))
	if n == nil {
		n = &node{run: newRun(len(run))}
	}
	n.id, n.parent, n.run = t.lastID, parent, append(n.run, run...)
	t.stats.Bytes += n.bytes()
	return n
}

// newRun returns an empty run for n keys. append knows what the allocator gives.
func newRun(n int) []Key { return append([]Key(nil), make([]Key, runRoom(n))...)[:0] }

// shortenLocked cuts the first keys off n's run, into memory that is as short as what is left.
func (t *Tree) shortenLocked(n *node, offset int) {
	rest := n.run[offset:]
	spare := t.spares.node(len(rest))
	if spare == nil {
		n.run = append(newRun(len(rest)), rest...)
		return
	}
	n.run, spare.run = spare.run, n.run
	n.run = append(n.run, rest...) // of what is the spare's run now
	t.spares.keepNode(spare)
}

// common returns how many leading keys a and b share.
func common(a, b []Key) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	// Equal runs are the usual case, and eight keys a turn let the processor compare them side by side.
	for ; i+8 <= n; i += 8 {
		x, y := (*[8]Key)(a[i:]), (*[8]Key)(b[i:])
		if *x != *y {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// splitLocked cuts n at offset, 0 < offset < len(n.run), and returns the new upper part. The lower part stays the same node, since
// its children name it. Both parts are copies, so that the memory of either goes when it goes.
func (t *Tree) splitLocked(n *node, offset int) *node {
	t.unlinkLocked(n)
	upper := t.newNodeLocked(n.parent, n.run[:offset])
	t.stats.Bytes -= upper.bytes() + n.bytes()
	t.shortenLocked(n, offset)
	n.parent = upper
	upper.holders = append(upper.holders, n.holders...)
	for i := range upper.holders {
		upper.holders[i].hold = t.splitHoldLocked(n.holders[i].hold, upper)
	}
	t.stats.Bytes += upper.bytes() + n.bytes()
	t.linkLocked(upper)
	t.linkLocked(n)
	return upper
}

// find returns o's hold on n, or nil, and its place.
func (n *node) find(o *owner) (*hold, int) {
	// A node of one prompt has one holder, and the newest worker is the last.
	if last := len(n.holders) - 1; last >= 0 && n.holders[last].serial <= o.serial {
		if n.holders[last].serial == o.serial {
			return n.holders[last].hold, last
		}
		return nil, last + 1
	}
	i := sort.Search(len(n.holders), func(i int) bool { return n.holders[i].serial >= o.serial })
	if i < len(n.holders) && n.holders[i].serial == o.serial {
		return n.holders[i].hold, i
	}
	return nil, i
}

// enterLocked puts a holder at its place.
func (t *Tree) enterLocked(n *node, at int, h *hold) {
	t.stats.Bytes -= n.bytes()
	n.holders = slices.Insert(n.holders, at, holder{h.owner.serial, h.owner.worker, h})
	t.stats.Bytes += n.bytes()
}

// leaveLocked takes a holder out. A node that nobody holds has no children either, and goes.
func (t *Tree) leaveLocked(n *node, at int) {
	t.stats.Bytes -= n.bytes()
	n.holders = slices.Delete(n.holders, at, at+1)
	if len(n.holders) == 0 {
		t.unlinkLocked(n)
		t.stats.Nodes--
		t.spares.keepNode(n)
		return
	}
	if len(n.holders)*4 <= cap(n.holders) {
		n.holders = append([]holder(nil), n.holders...)
	}
	t.stats.Bytes += n.bytes()
}
