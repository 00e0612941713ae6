package directory

import (
	"hash/maphash"
	"sync"
	"unsafe"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// segmentTokens is the unit of remembered hashes. Tokens after the last whole segment of a
	// prompt, 256 on average, are hashed each time.
	segmentTokens = 512
	// maxSegment bounds the pages of a segment.
	maxSegment = 64
	// cacheBytes bounds a cache: 16 million tokens in pages of 64, 4 million in pages of 16.
	cacheBytes = 4 << 20
	cacheWays  = 4
	// maxCaches bounds the page sizes with a cache. A cluster has one page size, or two during a
	// change.
	maxCaches = 2
)

// hashCaches is one cache for each page size. Index.mu guards the map.
type hashCaches struct {
	byPageSize map[int]*hashCache
	hash       func(tokens []uint32) uint64
}

// of returns the cache of a page size, or nil where there are maxCaches others.
func (c *hashCaches) of(pageSize int) *hashCache {
	cache := c.byPageSize[pageSize]
	if cache == nil && len(c.byPageSize) < maxCaches {
		cache = newHashCache(pageSize, c.hash)
		c.byPageSize[pageSize] = cache
	}
	return cache
}

// bytes returns the memory of all caches.
func (c *hashCaches) bytes() (sum int) {
	for _, cache := range c.byPageSize {
		sum += len(cache.sets)*int(unsafe.Sizeof(cacheSet{})) + 8*len(cache.names)
	}
	return sum
}

// hashCache remembers page names of prompt segments that tiers held. The key is a keyed 64-bit
// hash of a segment's tokens and all before it, as in the block index. Comparing the tokens
// themselves took half of a lookup, since remembered tokens are in no CPU cache.
type hashCache struct {
	pages  int // of a segment
	tokens int // of a segment
	sets   []cacheSet
	names  []uint64 // of all entries, pages each
	hash   func(tokens []uint32) uint64
}

// cacheSet is the entries that a key may have.
type cacheSet struct {
	mu    sync.Mutex // guards the set and its names
	clock uint32
	used  [cacheWays]uint32 // clock at the last use; 0: empty
	key   [cacheWays]uint64
	last  [cacheWays]proto.Hash // of the segment's last page
}

func newHashCache(pageSize int, hash func([]uint32) uint64) *hashCache {
	pages := min(max(segmentTokens/pageSize, 1), maxSegment)
	c := &hashCache{pages: pages, tokens: pages * pageSize, hash: hash}
	sets := 1
	for 2*sets*(cacheWays*8*c.pages+int(unsafe.Sizeof(cacheSet{}))) <= cacheBytes {
		sets *= 2
	}
	c.sets, c.names = make([]cacheSet, sets), make([]uint64, sets*cacheWays*c.pages)
	return c
}

// next returns the key of a segment behind the segments of key.
func (c *hashCache) next(key uint64, tokens []uint32) uint64 {
	const multiplier = 0x9e3779b97f4a7c15 // odd, so that no bit of key is lost
	return key*multiplier + c.hash(tokens)
}

func (c *hashCache) set(key uint64) int { return int(key >> 32 & uint64(len(c.sets)-1)) }

// get copies the page names and the last hash of a segment, where they are remembered.
func (c *hashCache) get(key uint64, names *[maxSegment]uint64, last *proto.Hash) bool {
	at := c.set(key)
	s := &c.sets[at]
	if !s.mu.TryLock() {
		return false
	}
	for i := range s.key {
		if s.key[i] == key && s.used[i] != 0 {
			if s.used[i] != s.clock {
				s.clock++
				s.used[i] = max(s.clock, 1)
			}
			entry := at*cacheWays + i
			copy(names[:], c.names[entry*c.pages:(entry+1)*c.pages])
			*last = s.last[i]
			s.mu.Unlock()
			return true
		}
	}
	s.mu.Unlock()
	return false
}

// put remembers a segment in place of the least recently used one of its set.
func (c *hashCache) put(key uint64, names *[maxSegment]uint64, last *proto.Hash) {
	at := c.set(key)
	s := &c.sets[at]
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	oldest := 0
	for i := range s.used {
		// Differences to the clock, which may have wrapped.
		if s.used[i] == 0 || s.clock-s.used[i] > s.clock-s.used[oldest] && s.used[oldest] != 0 {
			oldest = i
		}
	}
	s.clock++
	s.used[oldest], s.key[oldest], s.last[oldest] = max(s.clock, 1), key, *last
	entry := at*cacheWays + oldest
	copy(c.names[entry*c.pages:(entry+1)*c.pages], names[:])
}

// runtimeHash returns a keyed hash of token ids.
func runtimeHash() func(tokens []uint32) uint64 {
	seed := maphash.MakeSeed()
	return func(tokens []uint32) uint64 {
		if len(tokens) == 0 {
			return 0
		}
		return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(&tokens[0])), 4*len(tokens)))
	}
}
