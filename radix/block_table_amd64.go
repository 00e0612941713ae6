//go:build !purego && !race

package radix

import "golang.org/x/sys/cpu"

// vectors turns insertVector on.
var vectors = cpu.X86.HasAVX2

// probeAlign returns the bits of a slot's index that are cleared where probing begins:
// insertVector compares a whole cache line at once.
func probeAlign() uint64 {
	if vectors {
		return lineSlots - 1
	}
	return 0
}

// insertVector inserts the first engine hashes into slots from base on, and returns their
// number: all, or those before the first that needs insertOne.
func insertVector(t *blockTable, engineHashes []uint64, base uint64) (done int) {
	if !vectors || len(engineHashes) == 0 {
		return 0
	}
	return insertBatch256(&t.stripes[0], &engineHashes[0], len(engineHashes), t.key, base)
}

//go:noescape
func insertBatch256(stripes *blockStripe, hashes *uint64, n int, key, base uint64) (done int)
