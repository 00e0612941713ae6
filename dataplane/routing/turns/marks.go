package turns

import "sync/atomic"

// marks is a table of fixed size without locks, from prefix hashes to marks.
type marks struct {
	slots []slot
	// tags have the first byte of each slot's hash. Nearly all hashes that are looked for have no
	// mark, and their look-up ends in a sixteenth of the memory.
	tags []atomic.Uint32 // of sets
	mask uint64
}

// slot has a mark and its hash. The hash is stored combined with the mark, so that a slot of which
// only one word is written has no hash that is looked for.
type slot struct{ mixed, mark atomic.Uint64 }

// ways is the number of slots of a hash: one cache line.
const ways = 4

// mark is the end of a prompt: its branch, the number of the turn there, and whether the branch has
// had several turns. 0 is none.
type mark uint64

const (
	// shared is a prefix that prompts of several sessions have.
	shared mark = 1 << 63
	// kept is a mark of a branch of several turns.
	kept     mark = 1 << 62
	turnBits      = 20
	maxTurn       = 1<<turnBits - 1
)

func markOf(id ID, turn uint32) mark {
	m := mark(id)<<turnBits | mark(min(turn, maxTurn))
	if turn > 1 {
		m |= kept
	}
	return m
}

func (m mark) id() ID       { return ID(m&^(kept|shared)) >> turnBits }
func (m mark) turn() uint32 { return uint32(m & maxTurn) }

func newMarks(n int) marks {
	return marks{slots: make([]slot, n), tags: make([]atomic.Uint32, n/ways), mask: uint64(n/ways - 1)}
}

// everyByte times a byte is that byte in each place of a set's tags.
const everyByte = 0x01010101

// mayHave reports whether a slot of the hash's set has its tag: where none has, there is no mark.
func (x *marks) mayHave(hash uint64) bool {
	other := x.tags[hash&x.mask].Load() ^ uint32(hash>>56)*everyByte
	return (other-everyByte)&^other&(everyByte<<7) != 0 // a byte of other is 0
}

// tag sets the tag of a slot.
func (x *marks) tag(hash uint64, at int) {
	set, shift := &x.tags[hash&x.mask], 8*at
	for {
		old := set.Load()
		tags := old&^(0xff<<shift) | uint32(hash>>56)<<shift
		if tags == old || set.CompareAndSwap(old, tags) {
			return
		}
	}
}

func (x *marks) set(hash uint64) []slot {
	at := (hash & x.mask) * ways
	return x.slots[at : at+ways : at+ways]
}

// get returns the mark of a hash.
func (x *marks) get(hash uint64) mark {
	if !x.mayHave(hash) {
		return 0
	}
	set := x.set(hash)
	for i := range set {
		if m := set[i].mark.Load(); set[i].mixed.Load() == hash^m && m != 0 {
			return mark(m)
		}
	}
	return 0
}

// put sets the mark of a hash. In a full set it replaces the least valuable one. ended reports
// whether a branch is no more.
func (x *marks) put(hash uint64, m mark, ended func(ID) bool) {
	set := x.set(hash)
	at := place(set, hash)
	if at < 0 {
		at = least(set, hash, ended)
	}
	x.tag(hash, at)
	set[at].mark.Store(uint64(m))
	set[at].mixed.Store(hash ^ uint64(m))
}

// place returns the slot of a set that has the hash, else an empty one; -1: there is none.
func place(set []slot, hash uint64) int {
	free := -1
	for i := range set {
		switch m := set[i].mark.Load(); {
		case m == 0:
			free = i
		case set[i].mixed.Load() == hash^m:
			return i
		}
	}
	return free
}

// least returns the least valuable slot of a full set. Whether a branch has ended is a cache miss,
// so the first one that has ends the search.
func least(set []slot, hash uint64, ended func(ID) bool) int {
	at, value := int(hash>>32%ways), 3 // all may be worth keeping
	for i := range set {
		if v := worth(mark(set[i].mark.Load()), ended); v < value {
			if at, value = i, v; v == 0 {
				break
			}
		}
	}
	return at
}

// worth orders marks by their loss.
func worth(m mark, ended func(ID) bool) int {
	switch {
	case m == 0:
		return 0
	case m&shared != 0:
		return 2
	case ended(m.id()):
		return 0
	case m&kept == 0:
		return 1
	}
	return 3
}
