package radix

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Config configures an [Index]. The zero value is good.
type Config struct {
	// Seed keys the hash functions: indexes with the same seed hash alike. 0 draws one, so that nobody who can send prompts can
	// prepare collisions.
	Seed uint64
	// MaxBytes bounds [Stats].Bytes: where blocks that come would exceed it, those that are wanted least go. 0 means no bound; less
	// than minBudget is taken for that.
	MaxBytes int64
	// Stripes is the number of locks over the child table, rounded up to a power of two. 0 means defaultStripes.
	Stripes int
}

// defaultStripes is about one for each core of a large router: writers meet there only when runs come and go. More would push
// what look-ups touch out of the first-level cache; a stripe is one cache line.
const defaultStripes = 64

// Index tells which workers hold the leading blocks of a chain. It must not be copied.
type Index struct {
	seed     uint64 // of keys; never 0
	keys     keys
	children children
	places   places
	domains  domains
	budget   budget
	foretold foretold

	mu      sync.Mutex
	free    []Worker                  // ids to reuse; guarded by mu
	workers atomic.Pointer[[]*worker] // by Worker, nil where removed; replaced under mu

	scratch sync.Pool // *[]uint32: worker to index into a result, see matchState

	lastRun atomic.Uint64 // run ids; never reused
	count   counters
}

// New returns an empty index.
func New(cfg Config) *Index {
	seed := cfg.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	stripes := cfg.Stripes
	if stripes <= 0 {
		stripes = defaultStripes
	}
	x := &Index{seed: seed, keys: newKeys(seed)}
	x.children.init(stripes, x.keys[keyChild])
	x.foretold.children.init(foretoldStripes, x.keys[keyChild])
	x.places.init(x.keys[keyPlace])
	x.domains.init()
	x.budget.init(cfg.MaxBytes)
	x.places.tight = x.tight
	x.workers.Store(&[]*worker{})
	x.count.bytes.Store(int64(unsafe.Sizeof(*x)) + int64(len(x.children.stripes))*(cacheLine+sliceBytes))
	x.scratch.New = func() any { return new([]uint32) }
	return x
}
