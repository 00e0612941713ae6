package radix

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// runRegistry gives runs handles, small numbers that the slots of the block table and the clock
// hand of the evictor use in place of pointers.
type runRegistry struct {
	chunks atomic.Pointer[[]*runChunk] // by handle; 0 is never used; replaced under mu

	mu      sync.Mutex
	free    []uint32 // handles to reuse; guarded by mu
	retired []uint32 // handles that stale slots may still name; guarded by mu
	last    uint32   // the highest handle so far; guarded by mu
}

// runChunk has the runs of consecutive handles, and for each the number of its blocks that may
// have slots in the block table; 0 if the run is gone. A sweep reads these numbers, which lie
// close together, and not the scattered runs.
type runChunk struct {
	runs     [chunkRuns]atomic.Pointer[run]
	inserted [chunkRuns]atomic.Uint32
}

const (
	chunkRuns = 1 << 10 // 16 KiB
	maxHandle = 1<<(64-tagBits-offsetBits) - 1
)

func (g *runRegistry) init() { g.chunks.Store(&[]*runChunk{}) }

// run returns the cell of a handle.
func (g *runRegistry) run(handle uint32) *atomic.Pointer[run] {
	return &(*g.chunks.Load())[handle/chunkRuns].runs[handle%chunkRuns]
}

func (g *runRegistry) inserted(handle uint32) *atomic.Uint32 {
	return &(*g.chunks.Load())[handle/chunkRuns].inserted[handle%chunkRuns]
}

// add gives a run a handle. A run that gets none, because all are used, has no slots in the
// block table.
func (g *runRegistry) add(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch n := len(g.free); {
	case n > 0:
		r.handle = g.free[n-1]
		g.free = g.free[:n-1]
	case g.last < maxHandle:
		g.last++
		r.handle = g.last
	default:
		return
	}
	if chunks := g.chunks.Load(); int(r.handle/chunkRuns) == len(*chunks) {
		// Readers of the shorter slice never look behind its end.
		more := append(*chunks, new(runChunk))
		g.chunks.Store(&more)
	}
	g.run(r.handle).Store(r)
}

// remove retires the handle of a run without slots. The run keeps the number, to no use: it is
// dead.
func (g *runRegistry) remove(r *run) {
	if r.handle == 0 {
		return
	}
	g.run(r.handle).Store(nil)
	g.mu.Lock()
	g.retired = append(g.retired, r.handle)
	g.mu.Unlock()
}

// takeRetired returns the retired handles. They are free after the sweep that begins now.
func (g *runRegistry) takeRetired() []uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	retired := g.retired
	g.retired = nil
	return retired
}

func (g *runRegistry) reuse(handles []uint32) {
	g.mu.Lock()
	g.free = append(g.free, handles...)
	g.mu.Unlock()
}

// highest returns the highest handle so far.
func (g *runRegistry) highest() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

func (g *runRegistry) byteSize() int64 {
	return int64(len(*g.chunks.Load())) * int64(unsafe.Sizeof(runChunk{}))
}
