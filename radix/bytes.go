package radix

import (
	"math/bits"
	"unsafe"
)

// Sizes on the heap. Everything that grows with the blocks held is counted as it comes and
// goes, unused capacity included.

const (
	sliceBytes = 24
	blockBytes = int64(unsafe.Sizeof(Hash(0))) + 8 // with its engine hash
	entryBytes = int64(unsafe.Sizeof(entry{}))
	aliasBytes = int64(unsafe.Sizeof(alias{})) + 4*int64(unsafe.Sizeof(blockRef{})) + 2*mapSlotBytes
	// mapSlotBytes is a slot of a map from 8 bytes to 8 or 4.
	mapSlotBytes = 17
)

var (
	runBytes         = sizeClass(int64(unsafe.Sizeof(runWithHolding{})))
	holdingBytes     = sizeClass(int64(unsafe.Sizeof(holding{})))
	entryBlocksBytes = sizeClass(int64(unsafe.Sizeof(entryBlocks{})))
	workerBytes      = sizeClass(int64(unsafe.Sizeof(worker{}))) + 8
)

// sizeClass returns the bytes that the allocator gives for n, within a few percent: eight sizes
// to an octave, 8 KiB apart when large.
func sizeClass(n int64) int64 {
	if n <= 0 {
		return 0
	}
	grain := int64(8)
	if n > 32 {
		grain = max(16, min(int64(1)<<bits.Len64(uint64(n-1))/16, 8<<10))
	}
	return (n + grain - 1) / grain * grain
}

// mapBytes returns the bytes of a map that has had that many keys: it never shrinks. A small
// one has 8 slots, a larger one is at most seven eighths full.
func mapBytes(keys int) int64 {
	if keys == 0 {
		return 0
	}
	slots := int64(8)
	if keys > 8 {
		slots = 1 << bits.Len(uint(keys*8/7))
	}
	return 48 + slots*mapSlotBytes
}
