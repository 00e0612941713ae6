package radix

import "math/bits"

// claimLocked claims the names of the blocks that came to the run since.
func (x *Index) claimLocked(r *run) {
	names := r.listed()
	for n := r.face.Load().n.Load(); r.claimed < n; {
		end := min(n, r.claimed+batch)
		taken := x.places.claim(r.handle, r.claimed, names[r.claimed:end])
		for ; taken != 0; taken &= taken - 1 {
			setBit(&r.unnamed, r.claimed+uint32(bits.TrailingZeros64(taken)))
		}
		r.claimed = end
	}
}

// disclaimLocked gives the claims of the blocks from an offset on up.
func (x *Index) disclaimLocked(r *run, from uint32) {
	if from >= r.claimed {
		return
	}
	given := int(r.claimed - from)
	for i := range r.unnamed {
		keep := uint64(0)
		if end := int(from) - 64*i; end > 0 {
			keep = span(0, 0, min(end, 64))
		}
		given -= bits.OnesCount64(r.unnamed[i] &^ keep)
		r.unnamed[i] &= keep
	}
	r.claimed = from
	x.places.disclaim(r.handle, from, given)
}

// named reports whether name has its place at an offset of the run, which is locked.
func (r *run) named(offset uint32, name uint64) bool {
	return offset < r.claimed && r.listed()[offset] == name && !bit(r.unnamed, offset)
}

func bit(words []uint64, i uint32) bool {
	return int(i/64) < len(words) && words[i/64]>>(i%64)&1 == 1
}
