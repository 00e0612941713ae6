package radix

import "sync/atomic"

// Stats describes the index. While writers run, each number is right, but not all are of one
// moment.
type Stats struct {
	Workers int
	Domains int
	Runs    int // roots excluded
	Blocks  int // distinct blocks in runs
	Entries int // engine hashes held, over all workers
	Holds   int // pairs of a worker and a run
	// UnknownParents and UnknownRemovals count events that could not be applied.
	UnknownParents  uint64
	UnknownRemovals uint64
	Predictions     int // not forgotten
	PredictedBlocks int // distinct blocks in the runs of predictions
	Bytes           int // on the heap, within some 15 %, garbage excluded
	MaxBytes        int // the memory budget, which predictions do not count against; 0: none
	// The cost of the budget so far: copies and runs evicted, stores refused because their
	// parent was evicted, and stores refused because nothing was left to evict.
	EvictedBlocks, EvictedRuns, EvictedParents, Refused uint64
}

// counters are shared by all writers, which touch them once a call or when a run comes or goes.
type counters struct {
	runs, blocks, bytes             atomic.Int64 // bytes: of runs, workers and fixed tables
	unknownParents, unknownRemovals atomic.Int64

	evictedBlocks, evictedRuns, evictedParents, refused atomic.Int64
}

// Stats returns the sizes and counts of the index.
func (x *Index) Stats() Stats {
	c := &x.tree.count
	s := Stats{
		Domains:         int(x.tree.domains.live.Load()),
		Runs:            int(c.runs.Load()),
		Blocks:          int(c.blocks.Load()),
		UnknownParents:  uint64(c.unknownParents.Load()),
		UnknownRemovals: uint64(c.unknownRemovals.Load()),
		Predictions:     int(x.predictions.count.Load()),
		PredictedBlocks: int(x.predictions.blocks.Load()),
		Bytes:           int(x.tree.bytes() + x.predictions.bytes.Load()),
		MaxBytes:        int(x.tree.limit.max),
		EvictedBlocks:   uint64(c.evictedBlocks.Load()),
		EvictedRuns:     uint64(c.evictedRuns.Load()),
		EvictedParents:  uint64(c.evictedParents.Load()),
		Refused:         uint64(c.refused.Load()),
	}
	for _, w := range x.workers.list() {
		if w == nil {
			continue
		}
		s.Workers++
		s.Entries += int(w.sizes.hashes.Load())
		s.Holds += int(w.sizes.holdings.Load())
	}
	return s
}
