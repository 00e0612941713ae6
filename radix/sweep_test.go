package radix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPackAnyStripe packs stripes that are filled as claims fill them, of any size and share of stale slots, and expects what is not stale,
// each where probing from its own slot meets it before a free one.
func TestPackAnyStripe(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &places{}
		p.init(1)
		const handles = 7
		runs := []*runHandles{new(runHandles)}
		p.runs.Store(&runs)
		for h := 1; h < handles; h++ {
			runs[0].claimed[h].Store(rng.Uint32N(40))
		}
		slots := make([]uint64, bucket*(1+rng.IntN(25)))
		var want []uint64
		filled := rng.IntN(len(slots))
		for range filled {
			// Few of the highest tags, many or all: clusters go round the end.
			tag := tagMask - rng.Uint64N(1+rng.Uint64N(tagMask))
			v := (1+rng.Uint64N(handles-1))<<(tagBits+offsetBits) | rng.Uint64N(40)<<tagBits | tag
			settle(slots, v)
			if !p.stale(v) {
				want = append(want, v)
			}
		}
		p.used.Store(int64(filled))
		for again := range 2 { // what is packed already stays
			if live := p.packLocked(slots, slices.Index(slots, 0)); live != len(want) {
				t.Fatalf("seed %d, pass %d: %d live slots, want %d", seed, again, live, len(want))
			}
			requireProbing(t, slots, want)
		}
		if used := int(p.used.Load()); used != len(want) {
			t.Fatalf("seed %d: %d slots are said to be used, want %d", seed, used, len(want))
		}
	}
}

// requireProbing expects the slots in want, and no free one between where one belongs and where it is.
func requireProbing(t *testing.T, slots, want []uint64) {
	t.Helper()
	have := slices.DeleteFunc(slices.Clone(slots), func(v uint64) bool { return v == 0 })
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Fatalf("%x are there, want %x", have, want)
	}
	for at, v := range slots {
		if v == 0 {
			continue
		}
		for i := first(slots, v); i != uint64(at); i = after(slots, i) {
			if slots[i] == 0 {
				t.Fatalf("%x belongs at %d and is at %d, but %d is free", v, first(slots, v), at, i)
			}
		}
	}
}
