package promptcache

import (
	"errors"
	"hash/maphash"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix"
)

// Config of a Cache. Index and BlockSize are required.
type Config struct {
	// MaxBytes bounds the memory: about 12 bytes a token id that no other prompt shares. Default 64
	// MiB, which is some 350 prompts of 16,384 ids. Beyond it, pieces are overwritten, the longest
	// unused first (by a clock).
	MaxBytes int64
	// Index makes the block hashes.
	Index *radix.Index
	// BlockSize returns the tokens of a block; 0 while unknown. It is called for each
	// list.
	BlockSize func() int
}

// Cache remembers the pieces of prompts.
type Cache struct {
	index        *radix.Index
	blockSize    func() int
	seed         maphash.Seed
	serial       atomic.Uint64
	start        piece // before the first piece of all lists; holds nothing
	shards       [shardCount]shard
	fingerprints *fingerprints

	known, fresh, recalled, parsed atomic.Uint64
}

// New returns an empty cache.
func New(cfg Config) (*Cache, error) {
	if cfg.Index == nil || cfg.BlockSize == nil {
		return nil, errors.New("promptcache: no index or no block size")
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 64 << 20
	}
	c := &Cache{index: cfg.Index, blockSize: cfg.BlockSize, seed: maphash.MakeSeed(), fingerprints: &fingerprints{}}
	for i := range c.shards {
		c.shards[i].max = cfg.MaxBytes / shardCount
		c.shards[i].pieces = make(map[key]*piece)
	}
	return c, nil
}

// keyOf returns the key of a piece behind parent, and its shard.
func (c *Cache) keyOf(parent uint64, raw []byte) (key, *shard) {
	k := key{parent, maphash.Bytes(c.seed, raw)}
	return k, &c.shards[(k.sum^parent)&(shardCount-1)]
}

// Stats are counters since New, and the size now.
type Stats struct {
	// Known lists began with remembered bytes; Fresh ones were long enough to, and did not.
	Known, Fresh uint64
	// RecalledBytes of lists were compared instead of parsed, ParsedBytes of the same lists were
	// parsed.
	RecalledBytes, ParsedBytes uint64
	Evicted                    uint64
	Pieces                     int
	Bytes                      int64
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	st := Stats{
		Known: c.known.Load(), Fresh: c.fresh.Load(),
		RecalledBytes: c.recalled.Load(), ParsedBytes: c.parsed.Load(),
	}
	for i := range c.shards {
		c.shards[i].addStats(&st)
	}
	return st
}
