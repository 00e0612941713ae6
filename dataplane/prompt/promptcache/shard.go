package promptcache

import (
	"sync"

	"github.com/warmpath/warmpath/radix"
)

const (
	// shardCount spreads pieces over locks: a known piece holds one for 0.2 µs, beside other
	// readers.
	shardCount = 16
	cacheLine  = 64
)

// shard is a part of the cache with its own lock and its own share of the bytes.
type shard struct {
	mu      sync.RWMutex
	max     int64
	bytes   int64          // guarded by mu, like all below
	pieces  map[key]*piece // by key
	ring    []*piece       // all pieces ever made
	hand    int            // the place in ring where the search for a piece to overwrite goes on
	evicted uint64
	_       [2*cacheLine - 88]byte // fills two lines, so that two shards' locks never share one
}

// recall appends the ids and hashes of the piece that is exactly raw, and returns its serial; 0
// where there is none.
func (s *shard) recall(k key, raw []byte, block int, ids []uint32, chain []radix.Hash) (uint64, []uint32, []radix.Hash) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.pieces[k]
	if p == nil || !p.is(raw, block) {
		return 0, ids, chain
	}
	if !p.used.Load() {
		p.used.Store(true)
	}
	return p.serial, append(ids, p.ids...), append(chain, p.hashes...)
}

// add makes a piece of c, unless another request just did, and returns its serial; 0 where there is
// no room.
func (s *shard) add(c *content) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pieces[c.key]; p != nil && p.is(c.raw, c.block) {
		return p.serial
	}
	p := s.roomLocked(c)
	if p == nil {
		return 0
	}
	p.fill(c)
	s.pieces[c.key] = p
	return c.serial
}

// roomLocked returns a piece for c: a new one while there is room, else the least recently used
// that c fits into, or that leaves room when it is emptied.
func (s *shard) roomLocked(c *content) *piece {
	need := c.memory()
	if s.bytes+fixedBytes+need <= s.max {
		p := &piece{cost: need}
		s.ring = append(s.ring, p)
		s.bytes += fixedBytes + need
		return p
	}
	for range s.ring {
		p := s.evictLocked()
		if p.fits(c) {
			return p
		}
		s.bytes -= p.cost
		p.cost, p.content = 0, content{}
		if s.bytes+need <= s.max {
			p.cost = need
			s.bytes += need
			return p
		}
	}
	return nil
}

// evictLocked takes the least recently used piece out of the map.
func (s *shard) evictLocked() *piece {
	for {
		p := s.ring[s.hand]
		s.hand = (s.hand + 1) % len(s.ring)
		if p.used.Swap(false) {
			continue
		}
		if s.pieces[p.key] == p {
			delete(s.pieces, p.key)
			s.evicted++
		}
		return p
	}
}

func (s *shard) addStats(st *Stats) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st.Pieces += len(s.pieces)
	st.Bytes += s.bytes
	st.Evicted += s.evicted
}
