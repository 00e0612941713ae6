package approx

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"unsafe"
)

// Config says how a tree cuts prompts and how much it may keep. The zero Config is a good one.
type Config struct {
	// MaxBytes bounds what the tree keeps; 0 means 64 MiB, and less than 64 KiB counts as that. An entry is a prompt's part, a
	// node with 8 bytes a unit: 64 MiB hold 15,000 different prompts of 64 KiB each.
	MaxBytes int64
	// UnitBytes is the text that one key stands for, rounded up to a multiple of 64; 0 means 128, some 32 tokens of English.
	UnitBytes int
	// UnitTokens is the same for token ids, rounded up to a multiple of 16; 0 means 16.
	UnitTokens int
	// MaxChain is how many leading units of a prompt are kept; 0 means 16,384, 2 MiB of text. It bounds how long one insert
	// keeps look-ups waiting.
	MaxChain int
	// Seed keys the hash; 0 means a random one. Whoever knows it can build prompts that collide.
	Seed uint64
}

const (
	defaultMaxBytes   = 64 << 20
	minMaxBytes       = 64 << 10 // the child table and a few hundred nodes
	defaultUnitBytes  = 128
	defaultUnitTokens = 16 // SGLang's and vLLM's usual page is 16 or a multiple
	defaultMaxChain   = 16_384
)

// Tree is what workers are believed to hold. Make one with [New]; it must not be copied.
type Tree struct {
	keys       keys
	unitBytes  int
	unitTokens int
	maxChain   int
	maxBytes   int64
	liveBytes  int64 // of maxBytes, what is not for spares

	mu       sync.RWMutex
	buckets  []*node // guarded by mu, as is all below; a power of two, never grown
	root     node    // id 0, holds nothing
	lastID   uint64  // of a node
	all      list    // every hold, least recently used last
	owners   []*owner
	free     []Worker
	serial   uint32 // of the last owner
	draining int    // owners that are dead but still in holders
	clock    Tick
	spares   spares
	stats    Stats
}

// bucketBytes is the budget for which the child table has one bucket. The smallest node with its hold takes 200 bytes, so chains
// are at most 2.5 nodes long when every node is as small as can be.
const bucketBytes = 512

// New returns an empty tree.
func New(cfg Config) *Tree {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	t := &Tree{
		keys:       newKeys(cfg.Seed),
		unitBytes:  roundUp(cfg.UnitBytes, defaultUnitBytes, stepBytes),
		unitTokens: roundUp(cfg.UnitTokens, defaultUnitTokens, stepTokens),
		maxChain:   roundUp(cfg.MaxChain, defaultMaxChain, 1),
		maxBytes:   defaultMaxBytes,
	}
	if cfg.MaxBytes > 0 {
		t.maxBytes = max(cfg.MaxBytes, minMaxBytes)
	}
	t.spares.max = t.maxBytes / spareShare
	t.liveBytes = t.maxBytes - t.spares.max
	t.all.init(ofAll)
	// Made for the whole budget at once: growing it would stop look-ups for milliseconds, and untouched pages cost nothing.
	t.buckets = make([]*node, 1<<bits.Len64(uint64(t.maxBytes/bucketBytes/2)))
	t.stats.Bytes = int64(len(t.buckets)) * int64(unsafe.Sizeof((*node)(nil)))
	return t
}

// roundUp returns n, or the default for less than 1, as a multiple of step.
func roundUp(n, otherwise, step int) int {
	if n < 1 {
		n = otherwise
	}
	return (n + step - 1) / step * step
}

// Stats are the sizes and counters of a tree.
type Stats struct {
	Bytes    int64 // kept now, at most MaxBytes
	MaxBytes int64
	Workers  int
	Nodes    int64
	Holds    int64 // pairs of a worker and a node that it holds
	Units    int64 // sum over workers

	EvictedMemory   int64 // holds dropped, least recently used first, because MaxBytes was reached
	EvictedCapacity int64 // ... because the worker's capacity was reached
	EvictedStale    int64 // ... because an answer showed that the engine had evicted something used later
	Contradicted    int64 // answers that had less cached than an earlier answer had proved
	Surprised       int64 // answers that had more cached than was known
	Withdrawn       int64 // holds dropped because the request that made them failed
}

// Stats returns the present sizes and counters.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.MaxBytes = t.maxBytes
	s.Bytes += t.spares.bytes
	for _, o := range t.owners {
		if o != nil {
			s.Workers++
			s.Units += o.units
		}
	}
	return s
}
