package store

// The queues of a class. New pages are on probation; one that is used again is protected. So a prompt that comes once, however
// long, passes through probation only. How many pages probation may have is learnt as in ARC (Megiddo and Modha, "ARC: a
// self-tuning, low overhead replacement cache", FAST 2003): a page that comes back soon after it was evicted from one of the
// queues says that this one should have been longer. A fixed share is worse than plain LRU on conversations, whose turns are used
// once more and then never again; see TestPolicyOnTrace.
const (
	probation = iota
	protected
	queues
)

// class is all pages of one size. Each has its slabs, so that a page that leaves makes room for another without moving any.
type class struct {
	size  int64   // bytes of a slot
	slabs int     // that it has
	free  []int64 // offsets of free slots
	queue [queues]queue
	gone  [queues]ghosts // what was evicted from each
	room  int            // pages that probation should have
}

// queue holds pages by last use; the last is the next to go.
type queue struct {
	head, tail int32
	count      int
}

// slab is a piece of the arena that one class has.
type slab struct {
	class int32 // valid while slots is not nil
	slots []int32
	busy  int // slots that are not free
}

func (s *slab) hold(offset, size, slabBytes int64, e int32) {
	i := offset % slabBytes / size
	if was := s.slots[i]; (was == none) != (e == none) {
		if e == none {
			s.busy--
		} else {
			s.busy++
		}
	}
	s.slots[i] = e
}

func (x *index) slabOf(offset int64) *slab { return &x.slabs[offset/x.slab] }

// classOf returns the class of a page size, which it makes where it is new.
func (x *index) classOf(bytes int) int32 {
	size := (int64(bytes) + slotAlign - 1) / slotAlign * slotAlign
	for i := range x.classes {
		if x.classes[i].size == size {
			return int32(i)
		}
	}
	empty := queue{head: none, tail: none}
	x.classes = append(x.classes, class{size: size, queue: [queues]queue{empty, empty}})
	return int32(len(x.classes) - 1)
}

// slot finds room for a page of a class: a free slot, a free slab, a page of its own that goes, or a slab of a class whose
// pages are older.
func (x *index) slot(c int32) (offset int64, ok bool) {
	own := &x.classes[c]
	if len(own.free) == 0 && !x.takeSlab(c) {
		victim := x.victim(c)
		if other := x.older(c, victim); other != none && x.emptySlab(other, c) {
			x.stats.slabsMoved++
		} else if victim != none {
			x.evict(victim)
		}
	}
	own = &x.classes[c]
	n := len(own.free)
	if n == 0 {
		return 0, false
	}
	offset = own.free[n-1]
	own.free = own.free[:n-1]
	return offset, true
}

// takeSlab gives the class a slab that nobody has.
func (x *index) takeSlab(c int32) bool {
	for i := range x.slabs {
		if x.slabs[i].slots == nil {
			x.giveSlab(i, c)
			return true
		}
	}
	return false
}

func (x *index) giveSlab(i int, c int32) {
	own := &x.classes[c]
	n := x.slab / own.size
	slots := make([]int32, n)
	for j := range slots {
		slots[j] = none
	}
	x.slabs[i] = slab{class: c, slots: slots}
	own.slabs++
	// The lowest offset is the last and so the first to be taken: pages that are stored together lie together, and are moved in one piece.
	for j := n - 1; j >= 0; j-- {
		own.free = append(own.free, int64(i)*x.slab+j*own.size)
	}
}

// victim returns the page of a class that should go next, or none if all are in use.
func (x *index) victim(c int32) int32 {
	const tries = 8 // Leaves first, but a page is not looked for: order makes nearly every last one a leaf.
	best := none
	for _, q := range x.classes[c].order(x.policy) {
		e := x.classes[c].queue[q].tail
		for n := 0; e != none && n < tries; e = x.entries[e].prev {
			if x.entries[e].pins > 0 {
				continue
			}
			if x.entries[e].children == 0 || !x.policy.chain {
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

// order says which queue gives a page first.
func (c *class) order(p policy) [queues]int {
	if p.adapt && c.queue[probation].count <= c.room && c.queue[protected].count > 0 {
		return [queues]int{protected, probation}
	}
	return [queues]int{probation, protected}
}

// recall returns the queue for a page that is new here. One that was evicted not long ago is used again, and moves the border.
func (c *class) recall(p policy, k key) uint8 {
	if !p.adapt {
		return probation
	}
	was := [queues]int{len(c.gone[probation].seen), len(c.gone[protected].seen)}
	switch {
	case c.gone[probation].take(k):
		total := c.queue[probation].count + c.queue[protected].count
		c.room = min(total, c.room+max(1, was[protected]/was[probation]))
	case c.gone[protected].take(k):
		c.room = max(0, c.room-max(1, was[probation]/was[protected]))
	default:
		return probation
	}
	return protected
}

func (x *index) evict(e int32) {
	x.stats.evicted++
	if x.entries[e].children > 0 {
		x.stats.orphaned++
	}
	if x.policy.adapt {
		c := &x.classes[x.entries[e].class]
		c.gone[x.entries[e].queue].add(x.entries[e].key, c.queue[probation].count+c.queue[protected].count)
	}
	x.drop(e)
}

// older returns the class whose next page to go has been unused for longest, if for longer than the victim of c.
func (x *index) older(c, victim int32) int32 {
	oldest, found := x.clock+1, none
	if victim != none {
		oldest = x.entries[victim].used
	}
	for i := range x.classes {
		if int32(i) == c || x.classes[i].slabs == 0 {
			continue
		}
		if e := x.victim(int32(i)); e == none && len(x.classes[i].free) == 0 {
			continue
		} else if e == none || x.entries[e].used < oldest {
			found = int32(i)
			if e != none {
				oldest = x.entries[e].used
			}
		}
	}
	return found
}

// emptySlab takes from a class the slab with its next page to go, or a free one, and gives it to another. It fails where somebody
// uses a page there.
func (x *index) emptySlab(from, to int32) bool {
	i := -1
	if e := x.victim(from); e != none {
		i = int(x.entries[e].offset / x.slab)
	}
	for j := range x.slabs {
		if s := &x.slabs[j]; s.slots != nil && s.class == from && s.busy == 0 {
			i = j
		}
	}
	if i < 0 {
		return false
	}
	s := &x.slabs[i]
	for _, e := range s.slots {
		if e != none && (x.entries[e].state != ready || x.entries[e].pins > 0) {
			return false
		}
	}
	for _, e := range s.slots {
		if e != none {
			x.evict(e)
		}
	}
	own := &x.classes[from]
	kept := own.free[:0]
	for _, offset := range own.free {
		if int(offset/x.slab) != i {
			kept = append(kept, offset)
		}
	}
	own.free = kept
	own.slabs--
	x.giveSlab(i, to)
	return true
}

// use moves a page to the front of the protected ones.
func (x *index) use(e int32) {
	n := &x.entries[e]
	n.used = x.clock
	x.unlink(e)
	if !x.policy.adapt {
		x.push(e, probation)
		return
	}
	if n.queue == probation {
		x.stats.promoted++
	}
	x.push(e, protected)
}

func (x *index) push(e int32, q uint8) {
	n := &x.entries[e]
	list := &x.classes[n.class].queue[q]
	n.queue, n.prev, n.next = q, none, list.head
	if list.head != none {
		x.entries[list.head].prev = e
	} else {
		list.tail = e
	}
	list.head = e
	list.count++
}

func (x *index) unlink(e int32) {
	n := &x.entries[e]
	list := &x.classes[n.class].queue[n.queue]
	if n.prev != none {
		x.entries[n.prev].next = n.next
	} else {
		list.head = n.next
	}
	if n.next != none {
		x.entries[n.next].prev = n.prev
	} else {
		list.tail = n.prev
	}
	list.count--
}
