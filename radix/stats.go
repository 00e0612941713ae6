package radix

import (
	"sync/atomic"
	"unsafe"
)

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
	Bytes           int // estimated heap bytes
}

// counters are shared by all writers, who touch them once in a call or when a run comes or goes.
type counters struct {
	runs, blocks                    atomic.Int64
	unknownParents, unknownRemovals atomic.Int64
}

// Heap bytes for the estimate. A hold's include its slot on both sides, its entry in onRun and one word of bits.
const (
	entryBytes = int64(unsafe.Sizeof(entry{}))
	holdBytes  = int64(unsafe.Sizeof(hold{})) + 3*8 + 8 + 24
	runBytes   = int64(unsafe.Sizeof(run{})+unsafe.Sizeof(face{})+unsafe.Sizeof(slot{})*2) + 24
	blockBytes = int64(unsafe.Sizeof(Hash(0))) + 8 // and its name
)

// Stats returns the sizes and counts of the index.
func (x *Index) Stats() Stats {
	s := Stats{
		Domains:         len(*x.roots.Load()),
		Runs:            int(x.count.runs.Load()),
		Blocks:          int(x.count.blocks.Load()),
		UnknownParents:  uint64(x.count.unknownParents.Load()),
		UnknownRemovals: uint64(x.count.unknownRemovals.Load()),
	}
	bytes := int64(s.Runs)*runBytes + int64(s.Blocks)*blockBytes + int64(len(x.children.stripes))*cacheLine + 8*x.places.slots.Load()
	for _, o := range *x.workers.Load() {
		if o == nil {
			continue
		}
		s.Workers++
		s.Entries += int(o.entries.Load())
		s.Holds += int(o.holdCount.Load())
		bytes += o.bytes.Load()
	}
	s.Bytes = int(bytes)
	return s
}
