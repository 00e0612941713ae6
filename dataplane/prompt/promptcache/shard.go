package promptcache

import "sync"

const (
	// shardCount spreads pieces over locks: a new piece holds one twice for some 100 ns.
	shardCount = 16
	cacheLine  = 64
)

// shard is a part of the cache with its own lock and its own share of the bytes.
type shard struct {
	mu      sync.Mutex
	max     int64
	bytes   int64          // guarded by mu, like all below
	pieces  map[key]*piece // by key
	ring    []*piece       // all pieces ever made
	hand    int            // the place in ring where the search for a piece to overwrite goes on
	evicted uint64
	_       [2*cacheLine - 72]byte // fills two lines, so that two shards' locks never share one
}

// find returns the piece that has the key, which may be overwritten at once.
func (s *shard) find(k key) *piece {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pieces[k]
}

// add makes a piece of c. It returns nil where there is no room for it.
func (s *shard) add(c *content) *piece {
	p := s.take(c)
	if p == nil {
		return nil
	}
	p.fill(c)
	s.mu.Lock()
	s.pieces[c.key] = p
	s.mu.Unlock()
	p.unlock() // not before it is in the map: else it could be another piece by then
	return p
}

// take returns a piece for c that the caller owns exclusively: a new one while there is room, else
// the least recently used.
func (s *shard) take(c *content) *piece {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := c.memory()
	if s.bytes+fixedBytes+need <= s.max {
		p := &piece{cost: need}
		p.pins.Store(exclusive)
		s.ring = append(s.ring, p)
		s.bytes += fixedBytes + need
		return p
	}
	for range s.ring {
		p := s.evict()
		if p == nil || p.fits(c) {
			return p
		}
		s.bytes -= p.cost
		p.cost = 0
		p.empty()
		if s.bytes+need <= s.max {
			p.cost = need
			s.bytes += need
			return p
		}
		p.unlock() // empty, until the hand comes round
	}
	return nil
}

// evict returns a piece that is out of the map and the caller's alone; nil when all are in use.
func (s *shard) evict() *piece {
	// After one turn no piece is marked as used any more.
	for range 2 * len(s.ring) {
		p := s.ring[s.hand]
		s.hand = (s.hand + 1) % len(s.ring)
		if p.used.Load() {
			p.used.Store(false)
			continue
		}
		if !p.lock() {
			continue
		}
		if s.pieces[p.key] == p {
			delete(s.pieces, p.key)
			s.evicted++
		}
		return p
	}
	return nil
}

func (s *shard) addStats(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Pieces += len(s.pieces)
	st.Bytes += s.bytes
	st.Evicted += s.evicted
}
