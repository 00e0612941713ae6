package approx

import "unsafe"

// Tick counts the changes of a tree; it is its clock. Zero is before the first.
type Tick uint64

// hold says that an owner holds all of a node, and when that was last seen.
type hold struct {
	node  *node
	owner *owner
	links [2]link

	born  Tick // made
	sure  Tick // first proved by an answer; 0 while only a request was sent
	used  Tick // last use
	prior Tick // the use before that
}

// link is a place in one list.
type link struct{ prev, next *hold }

// The lists that each hold is in.
const (
	ofOwner = iota
	ofAll
)

const holdBytes = int64(unsafe.Sizeof(hold{}))

// list is a ring of holds, the most recently used first. Using a prompt moves the holds of its path to the front, ancestors first, so
// that an owner's ancestor is always before its descendants. Hence the last one is always a leaf, and eviction takes it without a
// search: no order by stamp has to be kept. Among a million holds in random
// order, moving one takes 0.17 µs; tidwall/btree ordered by stamp takes 1.9 µs (as a map by stamp 1.35 µs) and 41 to 73 bytes more.
type list struct {
	ring hold // its next is the first, its prev the last
	kind int
}

func (l *list) init(kind int) {
	l.kind = kind
	l.ring.links[kind] = link{&l.ring, &l.ring}
}

// last returns the least recently used hold, or nil.
func (l *list) last() *hold {
	if h := l.ring.links[l.kind].prev; h != &l.ring {
		return h
	}
	return nil
}

// insert puts h behind after.
func (l *list) insert(h, after *hold) {
	next := after.links[l.kind].next
	h.links[l.kind] = link{after, next}
	after.links[l.kind].next, next.links[l.kind].prev = h, h
}

// remove takes h out.
func (l *list) remove(h *hold) {
	at := h.links[l.kind]
	at.prev.links[l.kind].next, at.next.links[l.kind].prev = at.next, at.prev
	h.links[l.kind] = link{}
}

// frontLocked puts h at the front of both lists, or behind the hold on its parent that is there already.
func (t *Tree) frontLocked(h, above *hold) {
	if above == nil {
		h.owner.list.insert(h, &h.owner.list.ring)
		t.all.insert(h, &t.all.ring)
		return
	}
	h.owner.list.insert(h, above)
	t.all.insert(h, above)
}

// useLocked makes o's hold on n the most recently used but for above, the hold on n's parent. It is made if need be.
func (t *Tree) useLocked(o *owner, n *node, above *hold) *hold {
	h, at := n.find(o)
	if h == nil {
		h = t.spares.hold()
		h.node, h.owner, h.born = n, o, t.clock
		o.units += int64(len(n.run))
		t.stats.Holds++
		t.stats.Bytes += holdBytes
		t.enterLocked(n, at, h)
	} else {
		o.list.remove(h)
		t.all.remove(h)
	}
	if h.used != t.clock {
		h.prior, h.used = h.used, t.clock
	}
	t.frontLocked(h, above)
	return h
}

// splitHoldLocked returns a hold on upper, the part that was cut off the top of h's node, just before h in both lists.
func (t *Tree) splitHoldLocked(h *hold, upper *node) *hold {
	u := t.spares.hold()
	*u = hold{node: upper, owner: h.owner, born: h.born, sure: h.sure, used: h.used, prior: h.prior}
	h.owner.list.insert(u, h.links[ofOwner].prev)
	t.all.insert(u, h.links[ofAll].prev)
	t.stats.Holds++
	t.stats.Bytes += holdBytes
	return u
}

// dropLocked forgets h, which must be a leaf of its owner.
func (t *Tree) dropLocked(h *hold) {
	h.owner.list.remove(h)
	t.all.remove(h)
	h.owner.units -= int64(len(h.node.run))
	t.stats.Holds--
	t.stats.Bytes -= holdBytes
	_, at := h.node.find(h.owner)
	t.leaveLocked(h.node, at)
	t.spares.keepHold(h)
}
