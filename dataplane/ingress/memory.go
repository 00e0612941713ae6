package ingress

import (
	"math/bits"
	"sync"
)

// memory is room for a request's body, from a pool of its size. fasthttp's pool for bodies
// (1.74) drops the largest by the sizes it has seen: where most are small, each large one would
// be allocated anew.
type memory struct{ b []byte }

const (
	leastMemory = 4 << 10
	// believed is a length for which there is room at once; longer bodies get room step by
	// step.
	believed = 16 << 10
	// roomAhead is how many times the bytes that have come a longer body gets room for. Steps
	// end at the whole length, so that a long body is copied by a fifteenth of its length at
	// most.
	roomAhead = 16
)

// memories are by size, in powers of two from leastMemory to 64 MiB. Larger memory is not kept.
var memories [15]sync.Pool

// memoryOf returns memory for size bytes.
func memoryOf(size int) *memory {
	class := bits.Len(uint(max(size, 1)-1) / leastMemory)
	if class >= len(memories) {
		return &memory{make([]byte, size)}
	}
	if m, ok := memories[class].Get().(*memory); ok {
		return m
	}
	return &memory{make([]byte, leastMemory<<class)}
}

// release makes m available to others.
func (m *memory) release() {
	n := len(m.b)
	if class := bits.Len(uint(n)/leastMemory) - 1; class < len(memories) && n == leastMemory<<class {
		memories[class].Put(m)
	}
}

// roomFor returns the memory for a body of length bytes of which come have come.
func roomFor(length, come int) int {
	for length > believed && length/roomAhead > come {
		length = max(length/roomAhead, believed)
	}
	return length
}
