package tokens

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix"
)

// promptMemory is the memory of a prompt's ids and hashes. It is reused when all holders of the
// prompt have released it: those of a chat of 64 KB are 75 KB, which was half of the garbage of a
// request to a worker that tokenizes.
type promptMemory struct {
	references atomic.Int32 // callers of Source.Prompt, and the cache
	ids        []uint32
	hashes     []radix.Hash
	pool       *sync.Pool // nil: too large to be kept
}

// pooledSizes bounds the prompts with pooled memory to a million tokens: 4 sizes to an octave,
// so that at most a fifth lies idle.
const pooledSizes = 4*20 + 1

// memoryPools hold memory by the number of ids.
type memoryPools [pooledSizes]sync.Pool

// get returns empty memory for n ids, with one reference.
func (ps *memoryPools) get(n int) *promptMemory {
	size, room := sizeFor(n)
	if size >= pooledSizes {
		m := &promptMemory{ids: make([]uint32, 0, n)}
		m.references.Store(1)
		return m
	}
	m, ok := ps[size].Get().(*promptMemory)
	if !ok {
		m = &promptMemory{ids: make([]uint32, 0, room), pool: &ps[size]}
	}
	m.references.Store(1)
	return m
}

// sizeFor returns the least size with room for n ids, and that room: 1, 2, 3, 4, 5, 6, 7, 8, 10,
// 12, 14, 16, 20 and so on.
func sizeFor(n int) (size, room int) {
	if n <= 4 {
		return max(n, 1), max(n, 1)
	}
	octave := bits.Len(uint(n-1)) - 3 // n-1 is in [4, 8) << octave
	steps := (n-1)>>octave + 1
	return 4*octave + steps, steps << octave
}

// addReferences adds n references. The caller holds one.
func (m *promptMemory) addReferences(n int) {
	if m != nil {
		m.references.Add(int32(n))
	}
}

// Release returns the prompt's memory; its IDs and Hashes must not be read afterwards. Without a
// Release they are left to the garbage collector. Release of an empty prompt does nothing.
func (p Prompt) Release() {
	if m := p.memory; m != nil && m.references.Add(-1) == 0 && m.pool != nil {
		m.ids = m.ids[:0]
		m.pool.Put(m)
	}
}
