package route

import (
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/worker"
)

// Flight is a prompt that a rank is working on. Events tell of it only after
// its prefill batch; until then a burst of prompts with one prefix would be
// spread over ranks that each compute it again. From the first byte of its
// answer on, its whole pages are certainly cached: the engine does not evict
// what a running request uses.
type Flight struct {
	rank      *worker.Rank
	block     int
	sums      []uint64 // see Scratch.sums
	prefilled atomic.Bool
	slot      int // in flights.ring, or -1
}

// flights holds the prompts in flight that were dispatched last.
type flights struct {
	mu   sync.RWMutex
	ring [maxFlights]*Flight // guarded by mu
	next int                 // guarded by mu
	pool sync.Pool
}

// maxFlights bounds what a choice looks at: a look costs some 10 ns where the
// first block differs and 100 ns where it does not. A burst that shares a
// prefix comes within the last few hundred dispatches, or is spread over time
// so that events tell of it.
const maxFlights = 256

// Dispatch tells the router that a decision is carried out. Land must follow.
// s is the one that the decision was made with.
func (r *Router) Dispatch(s *Scratch, d *Decision) *Flight {
	if d.mark.tokens < d.mark.block || d.mark.block == 0 {
		return nil // no whole block to share
	}
	f, ok := r.flights.pool.Get().(*Flight)
	if !ok {
		f = &Flight{}
	}
	f.rank, f.block, f.sums = d.Rank, d.mark.block, append(f.sums[:0], s.sums...)
	f.prefilled.Store(false)
	r.flights.mu.Lock()
	defer r.flights.mu.Unlock()
	if old := r.flights.ring[r.flights.next]; old != nil {
		old.slot = -1 // still flying, but too long ago
	}
	f.slot = r.flights.next
	r.flights.ring[f.slot] = f
	r.flights.next = (r.flights.next + 1) % maxFlights
	return f
}

// Prefilled tells that the prompt's answer has begun. A nil Flight is ignored.
func (f *Flight) Prefilled() {
	if f != nil {
		f.prefilled.Store(true)
	}
}

// Land tells that the rank is done with a prompt, one way or another. f must
// not be used afterwards; nil is ignored.
func (r *Router) Land(f *Flight) {
	if f == nil {
		return
	}
	r.flights.mu.Lock()
	if f.slot >= 0 {
		r.flights.ring[f.slot] = nil
	}
	r.flights.mu.Unlock()
	f.rank = nil
	r.flights.pool.Put(f)
}

// flying credits candidates with what they hold, or will hold, of this prompt
// because of the prompts that they are working on.
func (r *Router) flying(s *Scratch, block int) {
	r.flights.mu.RLock()
	defer r.flights.mu.RUnlock()
	for _, f := range r.flights.ring {
		if f == nil || f.block != block {
			continue
		}
		if n := shared(f.sums, s.sums); n > 0 {
			s.predict(f.rank, n*block, block, f.prefilled.Load())
		}
	}
}

// predict notes that a rank holds, or is about to hold, a prefix.
func (s *Scratch) predict(rank *worker.Rank, held, block int, certain bool) {
	if certain {
		s.credit(rank, held, block)
	}
	for i, r := range s.ranks {
		if r == rank {
			s.predicted[i] = max(s.predicted[i], held)
		}
	}
}

// shared returns how many leading blocks two prompts have in common. A sum
// stands for all blocks before it, so equal sums mean equal prefixes and a
// binary search finds the last one.
func shared(a, b []uint64) int {
	n := min(len(a), len(b))
	if n < 2 || a[0] != b[0] || a[1] != b[1] {
		return 0
	}
	low, high := 1, n // a[low] == b[low], and a[high] differs or is no more
	for high-low > 1 {
		if mid := (low + high) / 2; a[mid] == b[mid] {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
