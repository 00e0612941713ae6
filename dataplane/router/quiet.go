package router

import (
	"context"
	"runtime"
	"runtime/debug"
	facts "runtime/metrics"
	"time"
)

const (
	// quietFor is how long nobody has needed the collector when the process counts as quiet. Go itself collects after two minutes only.
	quietFor = 10 * time.Second
	// quietSpare is how much more than after the last time a quiet process may hold: 32 prompts of 8 MB at once leave half a gigabyte in
	// buffers that are kept for the next ones, which nothing but collections takes from there. Less than this is what probes and scrapes leave
	// in a minute or two.
	quietSpare = 8 << 20
)

// quiet gives memory back after bursts: what was allocated, is not in use, and would stay until the collector runs for another reason.
type quiet struct {
	cycles uint64 // of the collector, when it last looked
	held   uint64 // bytes of heap in memory after it last gave something back, or less since
}

// run looks at intervals until ctx ends.
func (q *quiet) run(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			q.look()
		}
	}
}

// look gives back what can be, if the collector has not run since the last look and much more is held than then; it tells whether it tried.
// A large heap must have grown by a quarter, so that an index that grows slowly does not have it collect each time.
func (q *quiet) look() bool {
	cycles, held := heapHeld()
	busy := cycles != q.cycles
	q.cycles = cycles
	q.held = min(q.held, held)
	if busy || held < q.held+max(quietSpare, q.held/4) {
		return false
	}
	runtime.GC() // pools keep what they have for one collection
	debug.FreeOSMemory()
	q.cycles, q.held = heapHeld()
	return true
}

// heapHeld returns how often the collector has run, and how much of the heap is in memory.
func heapHeld() (cycles, bytes uint64) {
	now := []facts.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	facts.Read(now)
	return now[0].Value.Uint64(), now[1].Value.Uint64() + now[2].Value.Uint64() + now[3].Value.Uint64()
}
