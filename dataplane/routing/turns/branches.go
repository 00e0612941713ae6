package turns

import (
	"sync"
	"sync/atomic"
)

// ID names a branch: its slot and the number of its life there. 0 is none. IDs are never used again
// within 2^24 lives of a slot.
type ID uint64

const lifeBits = 24

// branch is a sequence of prompts of which each extends the one before. Lengths are in units of a
// prompt.
type branch struct {
	life    uint32
	turns   uint32 // 0: the slot is free
	session uint64
	parent  ID     // of a branch that may prove to be a session of its own; 0: that is decided
	since   uint32 // turns of the parent when this one's last request began
	beside  bool   // the parent began a turn while this one ran
	first   uint32 // leading units that other branches have too
	root    uint32 // length of the session's first prompt: others may begin with a part of that
	prev    uint32 // length of the prompt before the last one
	end     uint32 // length of the last prompt
	fork    uint32 // where turn forked left the turn before it
	forked  uint32
	running int32  // requests in flight
	rank    uint32 // of the last request, as its caller numbers ranks; 0: unknown
	last    int64  // time of the last request's begin or end
	pause   int64  // usual time from an answer's end to the next turn; 0: unknown
	head    uint64 // prefix of the first unit, of all of its prompts; 0: they have none
	exact   bool   // Turn.Exact of the last request
	named   bool   // the client names the session
	main    bool   // the session's first branch
}

// branches is a table of fixed size.
type branches struct {
	locks [64]sync.Mutex
	all   []branch        // guarded by the lock of the slot
	lives []atomic.Uint32 // of all: a look-up of whether a branch still exists waits for no lock
	heads []atomic.Uint32 // branches by their heads
	used  atomic.Uint32   // slots that have ever had a branch: the first ones
}

// headBits makes four counters for each branch, so that at most a fifth of new prompts begin as if
// they were known.
const headBits = slotBits + 2

func newBranches() branches {
	const slots = 1 << slotBits
	return branches{
		all: make([]branch, slots), lives: make([]atomic.Uint32, slots), heads: make([]atomic.Uint32, 1<<headBits),
	}
}

func (x *branches) headCount(head uint64) *atomic.Uint32 { return &x.heads[head>>(64-headBits)] }

// begins reports whether some branch may begin with the unit of which head is the prefix.
func (x *branches) begins(head uint64) bool { return x.headCount(head).Load() > 0 }

func (id ID) slot() int    { return int(id & (1<<slotBits - 1)) }
func (id ID) life() uint32 { return uint32(id >> slotBits) }

// with calls f with a branch under its lock, and reports whether it still exists.
func (x *branches) with(id ID, f func(b *branch)) bool {
	at := id.slot()
	mu := &x.locks[at%len(x.locks)]
	mu.Lock()
	defer mu.Unlock()
	b := &x.all[at]
	if b.turns == 0 || b.life != id.life() {
		return false
	}
	f(b)
	return true
}

// get returns a copy of a branch.
func (x *branches) get(id ID) (b branch, ok bool) {
	if id == 0 {
		return branch{}, false
	}
	at := id.slot()
	mu := &x.locks[at%len(x.locks)]
	mu.Lock()
	b = x.all[at]
	mu.Unlock()
	return b, b.turns > 0 && b.life == id.life()
}

// each calls f with the branch of each slot that has had one, under its lock.
func (x *branches) each(f func(b *branch)) {
	for at := range min(int(x.used.Load()), len(x.all)) {
		mu := &x.locks[at%len(x.locks)]
		mu.Lock()
		f(&x.all[at])
		mu.Unlock()
	}
}

func (x *branches) ended(id ID) bool { return x.lives[id.slot()].Load() != id.life() }

// tries is the number of slots of which a new branch takes the least valuable in a full table.
const tries = 4

// add stores a branch.
func (x *branches) add(random uint64, b branch) ID {
	at := x.slot(random)
	mu := &x.locks[at%len(x.locks)]
	mu.Lock()
	defer mu.Unlock()
	old := &x.all[at]
	b.life = old.life + 1
	if b.life >= 1<<lifeBits {
		b.life = 1
	}
	if b.head != 0 {
		x.headCount(b.head).Add(1)
	}
	if old.head != 0 {
		x.headCount(old.head).Add(^uint32(0))
	}
	*old = b
	x.lives[at].Store(b.life)
	return ID(b.life)<<slotBits | ID(at)
}

// slot returns the next unused slot, or that of the least valuable branch of a few that random
// names.
func (x *branches) slot(random uint64) (at int) {
	if x.used.Load() < uint32(len(x.all)) {
		if n := int(x.used.Add(1)); n <= len(x.all) {
			return n - 1
		}
	}
	least := int64(0)
	for i := range tries {
		random = scatter(random + 1)
		slot := int(random & (1<<slotBits - 1))
		mu := &x.locks[slot%len(x.locks)]
		mu.Lock()
		worth := x.all[slot].worth()
		mu.Unlock()
		if i == 0 || worth < least {
			at, least = slot, worth
		}
	}
	return at
}

// worth orders branches by the loss of them: the last use, and behind it several turns and requests
// in flight.
func (b *branch) worth() int64 {
	switch {
	case b.turns == 0:
		return -1
	case b.turns == 1 && b.running == 0:
		return b.last >> 2
	}
	return b.last>>2 | 1<<61
}
