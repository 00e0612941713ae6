package store

import (
	"errors"
	"fmt"
	"os"

	"github.com/warmpath/warmpath/nixl"
)

const (
	minSlab = 64 << 10
	// Holds one page of 64 tokens of a 70B model without tensor parallelism (21 MB).
	maxSlab = 64 << 20
	// minSlabs is the least number of slabs of an arena: with fewer, one page size starves another.
	minSlabs  = 64
	slotAlign = 64 // a cache line, so that pages of any size do not share one
)

// arena is the memory of a store: one memfd, mapped once, cut into slabs of one size. The kernel
// provides it page by page on first write; it is never on Go's heap.
type arena struct {
	memory *nixl.Mapping
	data   []byte   // of memory, read-write
	ro     *os.File // a descriptor that allows no writable mapping, for engines
	slab   int64    // bytes
}

// newArena maps memory, rounded up to whole slabs.
func newArena(bytes int64) (*arena, error) {
	slab := int64(minSlab)
	for slab < maxSlab && slab*2*minSlabs <= bytes {
		slab *= 2
	}
	memory, err := nixl.NewMapping("warmpath-kv-tier", int((bytes+slab-1)/slab*slab))
	if err != nil {
		return nil, fmt.Errorf("cannot make the KV tier's memory: %w", err)
	}
	ro, err := memory.ReadOnly()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the KV tier's memory for readers: %w", err), memory.Close())
	}
	return &arena{memory, memory.Bytes(), ro, slab}, nil
}

// slabs returns the number of slabs.
func (a *arena) slabs() int { return int(int64(len(a.data)) / a.slab) }

// at returns n bytes from an offset on.
func (a *arena) at(offset int64, n int) []byte {
	return a.data[offset : offset+int64(n) : offset+int64(n)]
}

// close unmaps the memory, as soon as NIXL cannot touch it. No slice of it may be in use.
func (a *arena) close() {
	_ = a.memory.Close() // fails only for bad arguments
	a.ro.Close()
}
