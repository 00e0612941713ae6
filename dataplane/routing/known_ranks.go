package routing

import (
	"sync"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// sessionRanks are the numbers of ranks in the table of sessions' pages.
type sessionRanks struct {
	mu     sync.RWMutex
	free   []uint32          // numbers of ranks that are gone; guarded by mu
	byHash map[uint64]uint32 // numbers by the rank's IDHash; guarded by mu
}

// of returns the number of the rank with that hash; 0: it is not known.
func (x *sessionRanks) of(hash uint64) uint32 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byHash[hash]
}

var _ worker.Observer = (*KnownSessions)(nil)

// Up implements worker.Observer: each rank begins without pages.
func (k *KnownSessions) Up(w *worker.Worker, _ *worker.Info) {
	k.Down(w)
	x := &k.ranks
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byHash == nil {
		x.byHash = make(map[uint64]uint32)
	}
	for _, rank := range w.Ranks() {
		if n := len(x.free); n > 0 {
			rank.SetSessionID(x.free[n-1])
			x.free = x.free[:n-1]
		} else {
			k.all.pages.AddRank() // numbers are the same in both
			rank.SetSessionID(uint32(k.own.pages.AddRank()) + 1)
		}
		x.byHash[rank.IDHash()] = rank.SessionID()
	}
}

// Down implements worker.Observer: the pages of the worker's ranks are gone. The sessions are not:
// they will come back.
func (k *KnownSessions) Down(w *worker.Worker) {
	x := &k.ranks
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, rank := range w.Ranks() {
		if n := rank.SessionID(); n != 0 {
			rank.SetSessionID(0)
			delete(x.byHash, rank.IDHash())
			k.clear(n)
			x.free = append(x.free, n)
		}
	}
}

// Clear notes that the caches of a worker are empty.
func (k *KnownSessions) Clear(w *worker.Worker) {
	for _, rank := range w.Ranks() {
		k.ClearRank(rank)
	}
}

// ClearRank notes that the cache of a rank is empty: it was flushed, or belongs to another process.
func (k *KnownSessions) ClearRank(rank *worker.Rank) {
	if n := rank.SessionID(); k != nil && n != 0 {
		k.clear(n)
	}
}

func (k *KnownSessions) clear(number uint32) {
	k.own.pages.Clear(int(number - 1))
	k.all.pages.Clear(int(number - 1))
}
