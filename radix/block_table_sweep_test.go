package radix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPackAnyStripe packs stripes of any size, fill and share of stale slots. Exactly the live
// slots must remain, each where probing from its home finds it before a free slot.
func TestPackAnyStripe(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		table := &blockTable{}
		table.init(1)
		const handles = 7
		chunks := []*runChunk{new(runChunk)}
		table.runs.chunks.Store(&chunks)
		for h := 1; h < handles; h++ {
			chunks[0].inserted[h].Store(rng.Uint32N(40))
		}
		slots := make([]uint64, lineSlots*(1+rng.IntN(25)))
		var want []uint64
		filled := rng.IntN(len(slots))
		for range filled {
			// Some stripes have only the highest tags: their clusters wrap around the end.
			tag := tagMask - rng.Uint64N(1+rng.Uint64N(tagMask))
			v := (1+rng.Uint64N(handles-1))<<(tagBits+offsetBits) | rng.Uint64N(40)<<tagBits | tag
			placeSlot(slots, v)
			if !staleSlot(chunks, v) {
				want = append(want, v)
			}
		}
		table.used.Store(int64(filled))
		s := tableSweep{table: table}
		for again := range 2 { // the second pass changes nothing
			if live := s.packLocked(slots, slices.Index(slots, 0)); live != len(want) {
				t.Fatalf("seed %d, pass %d: %d live slots, want %d", seed, again, live, len(want))
			}
			requireProbing(t, slots, want)
		}
		if used := int(table.used.Load()); used != len(want) {
			t.Fatalf("seed %d: the table counts %d used slots, want %d", seed, used, len(want))
		}
	}
}

// requireProbing fails unless the slots are want, and none is free between a slot's home and
// its index.
func requireProbing(t *testing.T, slots, want []uint64) {
	t.Helper()
	have := slices.DeleteFunc(slices.Clone(slots), func(v uint64) bool { return v == 0 })
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Fatalf("slots %x, want %x", have, want)
	}
	for at, v := range slots {
		if v == 0 {
			continue
		}
		for i := firstSlot(slots, v); i != uint64(at); i = nextSlot(slots, i) {
			if slots[i] == 0 {
				t.Fatalf("%x has home %d and is at %d, but %d is free",
					v, firstSlot(slots, v), at, i)
			}
		}
	}
}
