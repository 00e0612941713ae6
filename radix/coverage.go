package radix

import (
	"sync/atomic"
	"unsafe"
)

// The coverage of a run by a holder is one word, so look-ups never see it half-written: the
// worker, the number of leading blocks of the run that it holds in any tier, and the number on
// the GPU.
//
//	63        44 43           22 21            0
//	[  worker  ] [  any tier   ] [     GPU     ]
const (
	coverageBits = 22 // 4 M blocks; runs end at maxRun
	coverageMask = 1<<coverageBits - 1
	maxWorkers   = 1 << (64 - 2*coverageBits) // a million
)

func packCoverage(w Worker, anyTier, gpu uint32) uint64 {
	return uint64(w)<<(2*coverageBits) | uint64(anyTier)<<coverageBits | uint64(gpu)
}

func coverageWorker(v uint64) Worker { return Worker(v >> (2 * coverageBits)) }
func coveredAny(v uint64) int32      { return int32(v >> coverageBits & coverageMask) }
func coveredGPU(v uint64) int32      { return int32(v & coverageMask) }

// coverageTable has the coverage words of a run with several holders, by slot, behind this
// header in one piece of memory. A free slot is 0; look-ups skip it, as they skip worker 0
// where it covers nothing. The run's lock guards writes.
type coverageTable struct {
	used   atomic.Uint32 // slots that were ever set; look-ups skip the rest
	reuses atomic.Uint32 // slots given again: a look-up meanwhile may meet a worker twice
	size   uint32
	_      uint32
}

func newCoverageTable(size int) *coverageTable {
	const header = unsafe.Sizeof(coverageTable{}) / 8
	memory := make([]uint64, int(header)+size)
	t := (*coverageTable)(unsafe.Pointer(unsafe.SliceData(memory)))
	t.size = uint32(size)
	return t
}

// growCoverageTable returns a table with the given words and room for at least n. Sizes double,
// so the copying stays linear while holders come.
func growCoverageTable(words []atomic.Uint64, n int) *coverageTable {
	size := 2
	for size < n {
		size *= 2
	}
	t := newCoverageTable(size)
	for i := range words {
		t.all()[i].Store(words[i].Load())
	}
	t.used.Store(uint32(len(words)))
	return t
}

// words returns the words that were ever set.
func (t *coverageTable) words() []atomic.Uint64 { return t.all()[:t.used.Load()] }

func (t *coverageTable) all() []atomic.Uint64 {
	first := unsafe.Add(unsafe.Pointer(t), unsafe.Sizeof(coverageTable{}))
	return unsafe.Slice((*atomic.Uint64)(first), t.size)
}

func (t *coverageTable) set(slot uint32, v uint64) {
	t.all()[slot].Store(v)
	if slot >= t.used.Load() {
		t.used.Store(slot + 1)
	}
}
