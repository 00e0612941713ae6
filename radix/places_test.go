package radix

import (
	"math/rand/v2"
	"testing"
)

// TestClaimRowIsPut claims rows of names, with repeats and with tags that are alike, in stripes of all fillings up to full ones, by fill and by put
// alone: all slots must be the same.
func TestClaimRowIsPut(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		quick, plain := &places{}, &places{}
		for _, p := range []*places{quick, plain} {
			p.init(seed)
			p.tight = func(int64) bool { return false }
		}
		// Few stripes have slots: a row stops at a name of another, too.
		sizes, total := [placeStripes]int{}, 0
		for i := range sizes {
			if rng.IntN(8) > 0 {
				sizes[i] = bucket * rng.IntN(3)
			}
			total += sizes[i]
		}
		for i, n := range sizes {
			quick.stripes[i].slots, plain.stripes[i].slots = make([]uint64, n), make([]uint64, n)
		}
		var all []uint64
		for range 1 + total/40 {
			names := make([]uint64, 1+rng.IntN(batch))
			for i := range names {
				if names[i] = rng.Uint64(); len(all) > 0 && rng.IntN(10) == 0 {
					names[i] = all[rng.IntN(len(all))]
				}
			}
			all = append(all, names...)
			r := newRun(1, 0, nil, 0, make([]Hash, len(names)), names)
			quick.enlist(r)
			plain.enlist(r)
			n, taken := quick.fill(r.handle, 0, names)
			m, wantTaken := plain.putRow(0, names, uint64(r.handle)<<(tagBits+offsetBits))
			if n != m || taken != wantTaken {
				t.Fatalf("seed %d: fill claimed %d names but %b, put %d but %b", seed, n, taken, m, wantTaken)
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

// TestClaimOfAlikeTags has names that differ, but neither in their stripe nor in their tag: they must all be claimed, and be found.
func TestClaimOfAlikeTags(t *testing.T) {
	p := &places{}
	p.init(3)
	p.tight = func(int64) bool { return false }
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[uint64][]uint64{}
	var alike []uint64
	for len(alike) < 3 { // by chance: of 28 bits, some 30,000 names do
		name := rng.Uint64()
		h := p.hash(name)
		k := h>>(64-placeShift)<<tagBits | h&tagMask
		if seen[k] = append(seen[k], name); len(seen[k]) == 2 {
			alike = append(alike, seen[k]...)
		}
	}
	r := newRun(1, 0, nil, 0, make([]Hash, len(alike)), alike)
	p.enlist(r)
	if taken := p.claim(r.handle, 0, alike); taken != 0 {
		t.Fatalf("%b of %d names are said to be taken", taken, len(alike))
	}
	for i, name := range alike {
		if at, offset := p.find(name); at != r || offset != uint32(i) {
			t.Errorf("name %d is found at %d of %p", i, offset, at)
		}
	}
	if taken := p.claim(r.handle, 0, alike); taken != 1<<len(alike)-1 {
		t.Errorf("claimed again, %b are taken of %d", taken, len(alike))
	}
}
