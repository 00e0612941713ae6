package routing

import "sync/atomic"

// Sessions remembers the rank of each session in a table of fixed size without locks. A new
// session replaces an old one, which then is routed like a new session once.
type Sessions struct{ slots []sessionSlot }

// sessionSlot has a session's key and its rank's hash. The key is stored combined with the
// hash, so that a slot of which only one word is written matches no key.
type sessionSlot struct{ mixed, rank atomic.Uint64 }

const (
	// sessionSlots take 2 MiB and hold more sessions than a router of 64 ranks has running.
	sessionSlots = 1 << 17
	// sessionWays is the number of slots for a key: with 4, a table that is half full loses 3 %
	// of its sessions, with 1 39 %.
	sessionWays = 4
)

// NewSessions returns an empty table.
func NewSessions() *Sessions { return &Sessions{slots: make([]sessionSlot, sessionSlots)} }

// FNV-1a's constants.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// SessionKey returns the hash of a session's name; 0 for an empty one.
func SessionKey[T string | []byte](id T) uint64 {
	if len(id) == 0 {
		return 0
	}
	h := uint64(hashStart)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * hashPrime
	}
	return max(scatter(h), 1)
}

// rank returns the hash of the session's rank, or 0.
func (s *Sessions) rank(key uint64) uint64 {
	for i := range uint64(sessionWays) {
		slot := s.slot(key, i)
		if rank := slot.rank.Load(); rank != 0 && slot.mixed.Load() == key^rank {
			return rank
		}
	}
	return 0
}

// remember stores the rank of a session.
func (s *Sessions) remember(key, rank uint64) {
	free := s.slot(key, scatter(key^rank)%sessionWays) // a random one, where all are taken
	for i := range uint64(sessionWays) {
		slot := s.slot(key, i)
		held := slot.rank.Load()
		if slot.mixed.Load() == key^held && held != 0 {
			free = slot
			break
		}
		if held == 0 {
			free = slot
			break
		}
	}
	free.rank.Store(rank)
	free.mixed.Store(key ^ rank)
}

func (s *Sessions) slot(key, way uint64) *sessionSlot {
	return &s.slots[(key*sessionWays+way)%sessionSlots]
}

// scatter spreads a number over 64 bits (splitmix64's finalizer).
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
