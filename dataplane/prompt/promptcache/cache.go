package promptcache

import (
	"errors"
	"hash/maphash"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix"
)

// Config of a Cache. Index and BlockSize are required.
type Config struct {
	// MaxBytes bounds the memory: about 12 bytes a token that no other prompt shares. Default 64
	// MiB, which is some 350 prompts of 16,384 tokens. Beyond it, pieces are overwritten, the
	// longest unused first (by a clock).
	MaxBytes int64
	// Index makes the block hashes.
	Index *radix.Index
	// BlockSize returns the tokens of a block; 0 while unknown. It is called for each
	// text.
	BlockSize func() int
}

// Cache remembers the pieces of prompts.
type Cache struct {
	index     *radix.Index
	blockSize func() int
	seed      maphash.Seed
	serial    atomic.Uint64
	shards    [shardCount]shard

	known, fresh, recalled, encoded atomic.Uint64
}

// New returns an empty cache.
func New(cfg Config) (*Cache, error) {
	if cfg.Index == nil || cfg.BlockSize == nil {
		return nil, errors.New("promptcache: no index or no block size")
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 64 << 20
	}
	c := &Cache{index: cfg.Index, blockSize: cfg.BlockSize, seed: maphash.MakeSeed()}
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
	// Known texts began with remembered bytes; Fresh ones did not.
	Known, Fresh uint64
	// RecalledBytes of texts were compared instead of encoded, EncodedBytes of the same texts were
	// encoded.
	RecalledBytes, EncodedBytes uint64
	Evicted                     uint64
	Pieces                      int
	Bytes                       int64
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	st := Stats{
		Known: c.known.Load(), Fresh: c.fresh.Load(),
		RecalledBytes: c.recalled.Load(), EncodedBytes: c.encoded.Load(),
	}
	for i := range c.shards {
		c.shards[i].addStats(&st)
	}
	return st
}
