//go:build !purego && !race

package radix

import "golang.org/x/sys/cpu"

// vectors says that claimRow does something.
var vectors = cpu.X86.HasAVX2

// around is what of a slot's index is left out where probing begins: a cache line is looked at as one.
func around() uint64 {
	if vectors {
		return bucket - 1
	}
	return 0
}

// claimRow claims the first of some names, in slots that belong to base and behind, and returns how many it did: all, or up to the first that
// put must look at.
func (p *places) claimRow(names []uint64, base uint64) (done int) {
	if !vectors || len(names) == 0 {
		return 0
	}
	return claimRow256(&p.stripes[0], &names[0], len(names), p.key, base)
}

//go:noescape
func claimRow256(stripes *placeStripe, names *uint64, n int, key, base uint64) (done int)
