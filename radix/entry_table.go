package radix

import (
	"math"
	"math/bits"
)

// copies counts the copies of a block under one engine hash by tier.
type copies [tiers]uint16

// add counts a copy. A full count stays: removals then reach zero early, which credits too
// little.
func (n *copies) add(t Tier) {
	if n[t] < math.MaxUint16 {
		n[t]++
	}
}

// fastest returns the fastest tier with a copy.
func (n *copies) fastest() Tier {
	for t := range n {
		if n[t] > 0 {
			return Tier(t)
		}
	}
	return TierUnknown
}

// entry locates the block of an engine hash. It has no pointers, so the collector never scans
// the tables.
type entry struct {
	key    uint64 // engine hash
	handle uint32 // of the worker's holding, or aliased
	offset uint32 // of the block in the run
	copies copies // all 0: the slot is free
}

// aliased is the handle of an entry whose blocks are in worker.aliases.
const aliased = math.MaxUint32

func (e *entry) empty() bool {
	return e.copies[TierGPU]|e.copies[TierCPU]|e.copies[TierStorage] == 0
}

// entryTable maps a worker's engine hashes to entries, where listed copies do not suffice (see
// holding): open addressing with linear probing. Deletion moves followers back, so churn leaves
// no tombstones. The worker's lock guards it.
type entryTable struct {
	slots []entry // a power of two, or none
	shift uint    // 64 - log2(len(slots))
	len   int
}

const (
	entryTableMin = 16 // slots of the smallest table; 384 B
	// spread is 2^64 over the golden ratio: engine hashes may be small numbers or share low
	// bits.
	spread = 0x9e3779b97f4a7c15
)

func (t *entryTable) home(key uint64) int { return int(key * spread >> t.shift) }

// find returns the entry of key, or nil. The next insert or remove invalidates it.
func (t *entryTable) find(key uint64) *entry {
	if t.len == 0 {
		return nil
	}
	mask := len(t.slots) - 1
	for i := t.home(key); ; i = (i + 1) & mask {
		e := &t.slots[i]
		if e.empty() {
			return nil
		}
		if e.key == key {
			return e
		}
	}
}

// absent returns the number of leading keys that are not in the table.
func (t *entryTable) absent(keys []uint64) int {
	if t.len == 0 {
		return len(keys)
	}
	for i, k := range keys {
		if t.find(k) != nil {
			return i
		}
	}
	return len(keys)
}

// insert adds an entry; its key must not be in the table.
func (t *entryTable) insert(e entry) {
	// At most three quarters full: linear probing then reads 2.5 slots for a hit on average.
	if (t.len+1)*4 > len(t.slots)*3 {
		t.resize(max(entryTableMin, 2*len(t.slots)))
	}
	t.put(e)
	t.len++
}

func (t *entryTable) put(e entry) {
	mask := len(t.slots) - 1
	i := t.home(e.key)
	for !t.slots[i].empty() {
		i = (i + 1) & mask
	}
	t.slots[i] = e
}

// remove frees the slot of a key, which is in the table.
func (t *entryTable) remove(key uint64) {
	mask := len(t.slots) - 1
	i := t.home(key)
	for t.slots[i].key != key || t.slots[i].empty() {
		i = (i + 1) & mask
	}
	t.cut(i)
	t.shrink()
}

// removeIf frees the slots of the entries that f reports. The pass begins behind a free slot,
// so entries move only to slots that it has yet to visit.
func (t *entryTable) removeIf(f func(*entry) bool) {
	mask := len(t.slots) - 1
	begin := 0
	for begin < mask && !t.slots[begin].empty() {
		begin++
	}
	for n := range t.slots {
		i := (begin + n) & mask
		for !t.slots[i].empty() && f(&t.slots[i]) {
			t.cut(i)
		}
	}
	for was := -1; was != len(t.slots); {
		was = len(t.slots)
		t.shrink()
	}
}

// cut frees slot i and moves followers back.
func (t *entryTable) cut(i int) {
	mask := len(t.slots) - 1
	for j := (i + 1) & mask; !t.slots[j].empty(); j = (j + 1) & mask {
		// The follower may move to i if its home is not in (i, j].
		if (j-t.home(t.slots[j].key))&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = entry{}
	t.len--
}

// shrink halves a table that is less than an eighth full.
func (t *entryTable) shrink() {
	if len(t.slots) > entryTableMin && t.len*8 < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

func (t *entryTable) resize(n int) {
	old := t.slots
	t.slots = make([]entry, n)
	t.shift = uint(64 - bits.TrailingZeros(uint(n)))
	for i := range old {
		if !old[i].empty() {
			t.put(old[i])
		}
	}
}
