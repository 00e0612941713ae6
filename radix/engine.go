package radix

import (
	"math"
	"math/bits"
)

// copies counts the copies of a block under one engine hash by tier.
type copies [tiers]uint16

// entry says where the block of an engine hash is. It has no pointers, so the collector never looks into the tables.
type entry struct {
	key    uint64 // engine hash
	handle uint32 // the worker's hold on the run
	offset uint32 // of the block in the run
	n      copies // all 0: the slot is free
}

func (e *entry) empty() bool { return e.n[TierGPU]|e.n[TierCPU]|e.n[TierStorage] == 0 }

// add counts a copy. A count that is full stays: removals then reach zero early, which credits too little, never too much.
func (n *copies) add(t Tier) {
	if n[t] < math.MaxUint16 {
		n[t]++
	}
}

// engines is a worker's table from engine hash to entry: open addressing with linear probing, and deletion that moves
// followers back, so that churn leaves no tombstones. It is guarded by the worker's lock.
type engines struct {
	slots []entry // a power of two, or none
	shift uint    // 64 - log2(len(slots))
	len   int
	seen  filter // of keys, since the table was empty
}

// filter tells of most keys that they are not in a table, without a look into it: a Bloom filter of one bit a key (1970). The odd few names
// of a worker so do not slow the others down.
type filter [64]uint64

func (f *filter) bit(key uint64) (word *uint64, bit uint64) {
	h := key * spread >> (64 - 12)
	return &f[h/64], 1 << (h % 64)
}

const (
	enginesMin = 16 // slots of the smallest table; 384 B
	// spread is 2^64 over the golden ratio: engines' hashes may be small numbers or share low bits.
	spread = 0x9e3779b97f4a7c15
)

func (t *engines) home(key uint64) int { return int(key * spread >> t.shift) }

// find returns the entry of key, or nil. It is valid until the next insert or remove.
func (t *engines) find(key uint64) *entry {
	if t.len == 0 {
		return nil
	}
	if word, bit := t.seen.bit(key); *word&bit == 0 {
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

// insert adds an entry whose key is not there yet.
func (t *engines) insert(e entry) {
	// Three quarters full at most: linear probing then looks at 2.5 slots for a hit on average.
	if (t.len+1)*4 > len(t.slots)*3 {
		t.resize(max(enginesMin, 2*len(t.slots)))
	}
	t.put(e)
	t.len++
	word, bit := t.seen.bit(e.key)
	*word |= bit
}

// absent returns how many of the keys, from the first on, are surely not in the table.
func (t *engines) absent(keys []uint64) int {
	if t.len == 0 {
		return len(keys)
	}
	for i, k := range keys {
		if word, bit := t.seen.bit(k); *word&bit != 0 {
			return i
		}
	}
	return len(keys)
}

func (t *engines) put(e entry) {
	mask := len(t.slots) - 1
	i := t.home(e.key)
	for !t.slots[i].empty() {
		i = (i + 1) & mask
	}
	t.slots[i] = e
}

// remove frees the slot of an entry that find returned.
func (t *engines) remove(key uint64) {
	mask := len(t.slots) - 1
	i := t.home(key)
	for t.slots[i].key != key || t.slots[i].empty() {
		i = (i + 1) & mask
	}
	t.cut(i)
	t.fit()
}

// removeAll frees the slots of the entries that f names. It begins behind a free slot: so whatever moves, moves to where it is met.
func (t *engines) removeAll(f func(*entry) bool) {
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
		t.fit()
	}
}

// cut frees slot i, and moves followers back.
func (t *engines) cut(i int) {
	mask := len(t.slots) - 1
	for j := (i + 1) & mask; !t.slots[j].empty(); j = (j + 1) & mask {
		// The follower may move to i if its home is not in (i, j].
		if (j-t.home(t.slots[j].key))&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = entry{}
	if t.len--; t.len == 0 {
		t.seen = filter{}
	}
}

// fit gives memory back where little is used.
func (t *engines) fit() {
	if len(t.slots) > enginesMin && t.len*8 < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

func (t *engines) resize(n int) {
	old := t.slots
	t.slots = make([]entry, n)
	t.shift = uint(64 - bits.TrailingZeros(uint(n)))
	for i := range old {
		if !old[i].empty() {
			t.put(old[i])
		}
	}
}
