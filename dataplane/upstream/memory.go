package upstream

import (
	"math/bits"
	"sync"
)

// memory is room for a request's body, from a pool of its size. fasthttp's pool for bodies (1.74)
// drops the largest of them, by the sizes it has seen: where most are small, each large one would be
// allocated anew.
type memory struct{ b []byte }

const (
	leastMemory = 4 << 10
	// promised is how many times the bytes that have come a body gets room for. Steps end at the whole
	// length, so that a long body is copied by a fifteenth of its length at most.
	promised = 16
	// trusted is a length that is believed.
	trusted = 16 << 10
)

// memories are by size, in powers of two from leastMemory to 64 MiB. Larger memory is not kept.
var memories [15]sync.Pool

// memoryOf returns memory for size bytes.
func memoryOf(size int) *memory {
	class := max(bits.Len(uint(size-1)/leastMemory), 0)
	if size <= 0 {
		class = 0
	}
	if class >= len(memories) {
		return &memory{make([]byte, size)}
	}
	if m, ok := memories[class].Get().(*memory); ok {
		return m
	}
	return &memory{make([]byte, leastMemory<<class)}
}

func (m *memory) release() {
	n := len(m.b)
	if class := bits.Len(uint(n)/leastMemory) - 1; class < len(memories) && n == leastMemory<<class {
		memories[class].Put(m)
	}
}

// roomFor returns the memory for a body of length bytes of which come have come.
func roomFor(length, come int) int {
	for length > trusted && length/promised > come {
		length = max(length/promised, trusted)
	}
	return length
}
