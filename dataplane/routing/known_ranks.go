package routing

import (
	"sync"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// sessionRanks are the numbers of ranks in the table of sessions' pages.
type sessionRanks struct {
	mu   sync.Mutex
	free []uint32 // numbers of ranks that are gone; guarded by mu
}

var _ worker.Observer = (*KnownSessions)(nil)

// Up implements worker.Observer: each rank begins without pages.
func (k *KnownSessions) Up(w *worker.Worker, _ *worker.Info) {
	k.Down(w)
	x := &k.ranks
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, rank := range w.Ranks() {
		if n := len(x.free); n > 0 {
			rank.SetSessionID(x.free[n-1])
			x.free = x.free[:n-1]
		} else {
			rank.SetSessionID(uint32(k.pages.AddRank()) + 1)
		}
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

func (k *KnownSessions) clear(number uint32) { k.pages.Clear(int(number - 1)) }
