package radix

import "sync/atomic"

// memoryLimit is the memory budget of an index.
type memoryLimit struct {
	max      int64        // bytes; 0: no bound
	soft     int64        // from here on blocks are evicted; the rest is for tables that grow
	reserved atomic.Int64 // bytes of stores under way
}

const (
	// minBudget holds the tables of an empty index and some thousand blocks.
	minBudget = 1 << 20
	// softShare of the budget is kept for tables that grow without a reservation, as stripes
	// do.
	softShare = 64
	// evictShare of the budget is evicted at once, so that writers wait rarely and not for
	// long.
	evictShare = 256

	// storeBytes and newBlockBytes bound the memory of a store: a run and a holding; and for
	// each block its hashes and its slot, with unused capacity. An entry is no larger than the
	// slot.
	storeBytes    = 2048
	newBlockBytes = 64

	// farStores is the number of equal stores that must fit for a store to need no reservation:
	// more than there are cores.
	farStores = 64
)

func (l *memoryLimit) init(maxBytes int64) {
	if maxBytes > 0 {
		l.max = max(maxBytes, minBudget)
		l.soft = l.max - l.max/softShare
	}
}

// storeNeed returns the bytes that a store of that many blocks may take.
func (e *evictor) storeNeed(w *worker, blocks int) int64 {
	n := storeBytes + newBlockBytes*int64(blocks) + e.tree.blocks.growth(int64(blocks))
	if room := w.sizes.room.Load(); room < int64(blocks) {
		n += w.sizes.doubling.Load()
	}
	return n
}

// reserve makes room for a store of that many blocks. The caller releases the result when the
// blocks are counted. It holds no lock.
func (e *evictor) reserve(w *worker, blocks int) (int64, error) {
	limit := &e.tree.limit
	if limit.max == 0 {
		return 0, nil
	}
	// Fast path: the limit is far.
	need := e.storeNeed(w, blocks)
	if e.tree.bytes()+farStores*need <= limit.soft {
		return 0, nil
	}
	for e.tree.bytes()+limit.reserved.Add(need) > limit.soft {
		e.release(need)
		if !e.makeRoom(w, blocks) {
			e.tree.count.refused.Add(1)
			return 0, ErrBudget
		}
		need = e.storeNeed(w, blocks)
	}
	return need, nil
}

func (e *evictor) release(need int64) { e.tree.limit.reserved.Add(-need) }

// makeRoom evicts until a store fits, and reports whether it may fit.
func (e *evictor) makeRoom(w *worker, blocks int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	limit := &e.tree.limit
	over := e.tree.bytes() + limit.reserved.Load() + e.storeNeed(w, blocks) - limit.soft
	if over <= 0 {
		return true // another writer has evicted meanwhile
	}
	return e.evictLocked(over + limit.max/evictShare)
}
