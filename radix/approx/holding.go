package approx

import "unsafe"

// Tick is the clock of a tree: it counts its changes. Zero is before the first.
type Tick uint64

// holding is one worker's holding of a whole node, with its uses.
type holding struct {
	node  *node
	cache *cache
	links [2]link

	created  Tick
	proven   Tick // first answer that proved it; 0 while only requests were sent
	used     Tick // last use
	usedPrev Tick // the use before that
}

const holdingBytes = int64(unsafe.Sizeof(holding{}))

// usedBefore returns the last use before since, or 0 if two later uses hide it.
func (h *holding) usedBefore(since Tick) Tick {
	switch {
	case h.used < since:
		return h.used
	case h.usedPrev < since:
		return h.usedPrev
	default:
		return 0
	}
}

// link is a holding's neighbours in one list.
type link struct{ prev, next *holding }

// The lists that each holding is in.
const (
	ofCache = iota
	ofAll
)

// useList is a ring of holdings, the most recently used first. Using a prompt moves the
// holdings of its path to the front, ancestors first, so a worker's ancestors are before their
// descendants. Hence the last one is always a leaf, and eviction needs neither a search nor an
// order by tick. Among a million holdings in random order, moving one takes 0.17 µs;
// tidwall/btree ordered by tick takes 1.9 µs (as a map by tick 1.35 µs) and 41 to 73 bytes
// more.
type useList struct {
	ring holding // its next is the first, its prev the last
	kind int
}

func (l *useList) init(kind int) {
	l.kind = kind
	l.ring.links[kind] = link{&l.ring, &l.ring}
}

// last returns the least recently used holding, or nil.
func (l *useList) last() *holding {
	if h := l.ring.links[l.kind].prev; h != &l.ring {
		return h
	}
	return nil
}

// insert puts h behind after; nil is the front.
func (l *useList) insert(h, after *holding) {
	if after == nil {
		after = &l.ring
	}
	next := after.links[l.kind].next
	h.links[l.kind] = link{after, next}
	after.links[l.kind].next, next.links[l.kind].prev = h, h
}

// remove takes h out.
func (l *useList) remove(h *holding) {
	at := h.links[l.kind]
	at.prev.links[l.kind].next, at.next.links[l.kind].prev = at.next, at.prev
	h.links[l.kind] = link{}
}
