package approx

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Config sets the units and bounds of a tree. The zero Config is good.
type Config struct {
	// MaxBytes bounds the memory; 0 means 64 MiB, and less than 64 KiB counts as 64 KiB. 64 MiB
	// hold 15,000 different prompts of 64 KiB.
	MaxBytes int64
	// UnitBytes is the text of one key, rounded up to a multiple of 64; 0 means 128, some 32
	// tokens of English.
	UnitBytes int
	// UnitTokens is the number of token ids of one key, rounded up to a multiple of 16; 0 means
	// 16.
	UnitTokens int
	// MaxChain bounds the leading units of a prompt that count; 0 means 16,384, 2 MiB of text.
	// It bounds the time for which one insert blocks look-ups.
	MaxChain int
	// Seed keys the hash; 0 means a random one. A client that knows it can build prompts that
	// collide.
	Seed uint64
}

const (
	defaultMaxBytes   = 64 << 20
	minMaxBytes       = 64 << 10 // the child table and a few hundred nodes
	defaultUnitBytes  = 128
	defaultUnitTokens = 16 // SGLang's and vLLM's usual page is 16 or a multiple
	defaultMaxChain   = 16_384
)

// Tree has the prompts that workers are believed to hold. Make it with [New]; it must not be
// copied.
type Tree struct {
	Hasher
	maxBytes  int64
	liveBytes int64 // the part of maxBytes for all but the free list

	mu     sync.RWMutex
	nodes  nodeStore // guarded by mu, as is all below
	caches []*cache  // by worker, nil where free
	serial uint32    // of the last cache
	ending int       // ended caches that still have holdings
	clock  Tick
	stats  Stats // its counters
}

// New returns an empty tree.
func New(cfg Config) *Tree {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	t := &Tree{maxBytes: defaultMaxBytes}
	keyed.Fill(t.keys[:], cfg.Seed)
	t.unitBytes = roundUp(cfg.UnitBytes, defaultUnitBytes, stepBytes)
	t.unitTokens = roundUp(cfg.UnitTokens, defaultUnitTokens, stepTokens)
	t.maxChain = roundUp(cfg.MaxChain, defaultMaxChain, 1)
	if cfg.MaxBytes > 0 {
		t.maxBytes = max(cfg.MaxBytes, minMaxBytes)
	}
	s := &t.nodes
	s.hashKeys = &t.keys
	s.free.max = t.maxBytes / freeShare
	t.liveBytes = t.maxBytes - s.free.max
	s.recent.init(ofAll)
	// Made for the whole bound at once: growing would block look-ups for milliseconds, and
	// untouched pages cost nothing.
	s.buckets = make([]*node, 1<<bits.Len64(uint64(t.maxBytes/bucketBytes/2)))
	s.bytes = int64(len(s.buckets)) * int64(unsafe.Sizeof((*node)(nil)))
	return t
}

// roundUp returns n, or the default if n is below 1, as a multiple of step.
func roundUp(n, otherwise, step int) int {
	if n < 1 {
		n = otherwise
	}
	return (n + step - 1) / step * step
}

// Stats has the sizes and counters of a tree.
type Stats struct {
	Bytes    int64 // at most MaxBytes
	MaxBytes int64
	Workers  int
	Nodes    int64
	Holds    int64 // pairs of a worker and a node that it holds
	Units    int64 // sum over workers

	EvictedMemory   int64 // holdings dropped because MaxBytes was reached
	EvictedCapacity int64 // ... because the worker's capacity was reached
	EvictedStale    int64 // ... because an answer showed that the engine had evicted them
	Contradicted    int64 // answers with fewer cached units than an earlier answer had proven
	Surprised       int64 // answers with more cached units than expected
	Withdrawn       int64 // holdings dropped because their request failed
}

// Stats returns the present sizes and counters.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.MaxBytes = t.maxBytes
	s.Bytes = t.nodes.bytes + t.nodes.free.bytes
	s.Nodes, s.Holds = t.nodes.nodes, t.nodes.holdings
	for _, c := range t.caches {
		if c != nil {
			s.Workers++
			s.Units += c.units
		}
	}
	return s
}

// Overlap is the number of leading units of a prompt that a worker is believed to hold.
type Overlap struct {
	Worker Worker
	Units  int // at least 1
}

// Match appends to dst the overlap of each worker that is believed to hold the first unit of
// chain, in no order.
func (t *Tree) Match(dst []Overlap, chain []Key) []Overlap {
	chain = chain[:min(len(chain), t.maxChain)]
	t.mu.RLock()
	defer t.mu.RUnlock()
	at, depth := &t.nodes.root, 0
	for depth < len(chain) {
		next := t.nodes.child(at, chain[depth])
		if next == nil {
			break
		}
		dst = t.appendEnding(dst, at.holders, next.holders, depth)
		n := keyed.CommonPrefix(next.keys, chain[depth:])
		at = next
		depth += n
		if n < len(next.keys) {
			break
		}
	}
	return t.appendEnding(dst, at.holders, nil, depth)
}

// appendEnding appends the holders in a but not in its subset b: their overlap ends at depth.
func (t *Tree) appendEnding(dst []Overlap, a, b []holder, depth int) []Overlap {
	if len(a) == len(b) {
		return dst
	}
	for i := range a {
		if len(b) > 0 && b[0].serial == a[i].serial {
			b = b[1:]
			continue
		}
		// The flag is a cache miss away, and matters only for a moment after a worker was
		// cleared.
		if t.ending > 0 && a[i].holding.cache.ended {
			continue
		}
		dst = append(dst, Overlap{a[i].worker, depth})
	}
	return dst
}
