package radix

import "sync/atomic"

// A lead is what look-ups need of one hold, in one word so that it is never seen half-written: the worker, how many blocks from the start
// of the run it holds in any tier, and how many on the GPU.
//
//	63        44 43           22 21            0
//	[  worker  ] [  any tier   ] [     GPU     ]
const (
	leadBits   = 22 // 4 M blocks; runs end at maxRun
	leadMask   = 1<<leadBits - 1
	maxWorkers = 1 << (64 - 2*leadBits) // a million
)

func packLead(w Worker, anyTier, gpu uint32) uint64 {
	return uint64(w)<<(2*leadBits) | uint64(anyTier)<<leadBits | uint64(gpu)
}

func leadWorker(v uint64) Worker { return Worker(v >> (2 * leadBits)) }
func leadAny(v uint64) int       { return int(v >> leadBits & leadMask) }
func leadGPU(v uint64) int       { return int(v & leadMask) }

// leads are the words of a run's holds, by slot. A slot without a hold is 0, as is one of worker 0 that leads nowhere: neither
// counts.
type leads struct {
	words []atomic.Uint64
	used  atomic.Uint32    // words beyond were never set; saves look-ups the walk over the spare capacity
	few   [2]atomic.Uint64 // words of most runs, in the cache line of the rest
}

// set publishes the word of a slot. The caller holds the run's lock.
func (l *leads) set(slot uint32, v uint64) {
	l.words[slot].Store(v)
	if slot >= l.used.Load() {
		l.used.Store(slot + 1)
	}
}

// grown returns a copy with room for at least n words. Doubling keeps the copying linear while workers come.
func (l *leads) grown(n int) *leads {
	size := 1
	for size < n {
		size *= 2
	}
	g := new(leads)
	if size <= len(g.few) {
		g.words = g.few[:size]
	} else {
		g.words = make([]atomic.Uint64, size)
	}
	if l == nil {
		return g
	}
	for i := range l.words {
		g.words[i].Store(l.words[i].Load())
	}
	g.used.Store(l.used.Load())
	return g
}
