package radix

import "sync/atomic"

// Stats describes the index. While writers run, the numbers are each right but not of one moment.
type Stats struct {
	Workers int
	Domains int
	Runs    int // stretches of blocks, roots not counted
	Blocks  int // distinct blocks in these
	Entries int // engine hashes held, over all workers
	Holds   int // pairs of a worker and a run
	// UnknownParents and UnknownRemovals count events that could not be applied; both only grow.
	UnknownParents  uint64
	UnknownRemovals uint64
	Predictions     int // that stand
	PredictedBlocks int // distinct blocks in these, and what was in a run with them
	Bytes           int // of the heap, within some 15 %, without what is garbage
	MaxBytes        int // the budget, which predictions do not count against; 0: none
	// What the budget cost so far: block copies and runs evicted, stores that could not be placed as their parent was, and stores for which
	// there was no room at all.
	EvictedBlocks, EvictedRuns, EvictedParents, Refused uint64
}

// counters are shared by all writers, who touch them once in a call or when a run comes or goes.
type counters struct {
	runs, blocks, bytes             atomic.Int64 // bytes: of all but the shared tables
	unknownParents, unknownRemovals atomic.Int64
}

// Stats returns the sizes and counts of the index.
func (x *Index) Stats() Stats {
	s := Stats{
		Domains:         int(x.domains.live.Load()),
		Runs:            int(x.count.runs.Load()),
		Blocks:          int(x.count.blocks.Load()),
		UnknownParents:  uint64(x.count.unknownParents.Load()),
		UnknownRemovals: uint64(x.count.unknownRemovals.Load()),
		Predictions:     int(x.foretold.count.Load()),
		PredictedBlocks: int(x.foretold.blocks.Load()),
		Bytes:           int(x.used() + x.foretold.bytes.Load()),
		MaxBytes:        int(x.budget.max),
		EvictedBlocks:   uint64(x.budget.blocks.Load()),
		EvictedRuns:     uint64(x.budget.runs.Load()),
		EvictedParents:  uint64(x.budget.parents.Load()),
		Refused:         uint64(x.budget.refused.Load()),
	}
	for _, o := range *x.workers.Load() {
		if o == nil {
			continue
		}
		s.Workers++
		s.Entries += int(o.entries.Load())
		s.Holds += int(o.holdCount.Load())
	}
	return s
}
