package radix

import (
	"math/rand/v2"
	"testing"
)

// newBlockTable returns an empty table that may always grow.
func newBlockTable(key uint64) *blockTable {
	t := &blockTable{memoryLow: func(int64) bool { return false }}
	t.init(key)
	return t
}

// TestVectorInsertsLikeOne inserts batches with repeats and equal tags into stripes of any
// fill, by insertStripe and by insertEach: all slots must be equal.
func TestVectorInsertsLikeOne(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		quick, plain := newBlockTable(seed), newBlockTable(seed)
		// Some stripes have no slots: a batch stops there, too.
		sizes, total := [blockStripes]int{}, 0
		for i := range sizes {
			if rng.IntN(8) > 0 {
				sizes[i] = lineSlots * rng.IntN(3)
			}
			total += sizes[i]
		}
		for i, n := range sizes {
			quick.stripes[i].slots, plain.stripes[i].slots = make([]uint64, n), make([]uint64, n)
		}
		var all []uint64
		for range 1 + total/40 {
			hashes := make([]uint64, 1+rng.IntN(insertBatch))
			for i := range hashes {
				if hashes[i] = rng.Uint64(); len(all) > 0 && rng.IntN(10) == 0 {
					hashes[i] = all[rng.IntN(len(all))]
				}
			}
			all = append(all, hashes...)
			r := newRun(1, 0, nil, 0, make([]Hash, len(hashes)), hashes)
			quick.runs.add(r)
			plain.runs.add(r)
			n, duplicates := quick.insertStripe(r.handle, 0, hashes)
			m, want := plain.insertEach(0, hashes, uint64(r.handle)<<(tagBits+offsetBits))
			if n != m || duplicates != want {
				t.Fatalf("seed %d: insertStripe comes to %d, duplicates %b; insertEach to %d, %b",
					seed, n, duplicates, m, want)
			}
		}
		for i := range quick.stripes {
			for j, v := range quick.stripes[i].slots {
				if want := plain.stripes[i].slots[j]; v != want {
					t.Fatalf("seed %d: stripe %d has %x at %d, want %x", seed, i, v, j, want)
				}
			}
		}
	}
}

// TestEqualTags inserts engine hashes of equal stripe and tag: each must have a slot and be
// found.
func TestEqualTags(t *testing.T) {
	table := newBlockTable(3)
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[uint64][]uint64{}
	var equal []uint64
	for len(equal) < 3 { // some 30,000 hashes have two of equal 28 bits
		v := rng.Uint64()
		h := table.hash(v)
		k := h>>(64-stripeBits)<<tagBits | h&tagMask
		if seen[k] = append(seen[k], v); len(seen[k]) == 2 {
			equal = append(equal, seen[k]...)
		}
	}
	r := newRun(1, 0, nil, 0, make([]Hash, len(equal)), equal)
	table.runs.add(r)
	if duplicates := table.insert(r.handle, 0, equal); duplicates != 0 {
		t.Fatalf("insert finds duplicates %b of %d", duplicates, len(equal))
	}
	for i, v := range equal {
		if at, offset := table.find(v); at != r || offset != uint32(i) {
			t.Errorf("engine hash %d is found at %d of %p", i, offset, at)
		}
	}
	if duplicates := table.insert(r.handle, 0, equal); duplicates != 1<<len(equal)-1 {
		t.Errorf("inserted again, duplicates are %b of %d", duplicates, len(equal))
	}
}
