package radix

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Config configures an [Index]. The zero value is good.
type Config struct {
	// Seed keys the hash functions: indexes with the same seed hash alike. 0 draws one, so that nobody who can send prompts can
	// prepare collisions.
	Seed uint64
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

	mu      sync.Mutex
	domains map[DomainKey]Domain      // guarded by mu
	free    []Worker                  // ids to reuse; guarded by mu
	roots   atomic.Pointer[[]*face]   // by Domain; replaced under mu
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
	x := &Index{seed: seed, keys: newKeys(seed), domains: make(map[DomainKey]Domain)}
	x.children.init(stripes, x.keys[keyChild])
	x.places.init(x.keys[keyPlace])
	x.roots.Store(&[]*face{})
	x.workers.Store(&[]*worker{})
	x.scratch.New = func() any { return new([]uint32) }
	return x
}
