package radix

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// predictionTree is the radix tree of all predictions, apart from the tree of blocks that
// workers hold. So predictions and events never wait for each other, and a prediction that ends
// within a run does not split the runs of the other tree. A run grows only for its sole
// prediction, never shrinks, and is freed with its last one.
type predictionTree struct {
	children childTable
	runIDs   *atomic.Uint64 // shared with tree
	runs     atomic.Int64   // look-ups return at once while it is 0
	blocks   atomic.Int64   // in runs
	bytes    atomic.Int64   // of runs
	count    atomic.Int64   // predictions
	mu       sync.Mutex     // held while a run is added below a scope's root
}

const (
	// maxPredictedBytes bounds the memory: 4,096 prompts of 1,024 blocks without a common
	// prefix take half.
	maxPredictedBytes = 64 << 20
	// predictionStripes are few, as there is about one run for each request in flight.
	predictionStripes = 16

	// answerBlocks is the number of blocks that a short answer adds to its prompt.
	answerBlocks = 2

	// predictedRunBytes is a run with one holder, without its blocks.
	predictedRunBytes = int64(unsafe.Sizeof(predictedRun{})) +
		2*int64(unsafe.Sizeof(childSlot{})) + 8*answerBlocks
)

// predictedRun is a new run in one piece of memory with its part, its first holder and its
// view; the blocks lie behind.
type predictedRun struct {
	run    run
	part   predictedPart
	holder [1]predictedHolder
	count  [1]segmentCount
	view   runView
}

// predictedTypes are the types of predictedRun by size class.
var predictedTypes = typesWithTail(reflect.TypeFor[predictedRun](), 1, 0)

// predictedPart has the predictions of a run. The run's lock guards it.
type predictedPart struct {
	segments int               // in the run
	holders  []predictedHolder // by slot of the coverage words; free where it has no counts
}

// predictedHolder has the predictions of one worker in a run.
type predictedHolder struct {
	worker Worker
	counts []segmentCount // one for each length of its segments
}

// segmentCount is the number of a worker's segments of one length.
type segmentCount struct {
	blocks       uint32
	n, confirmed uint32 // all of them; the confirmed ones
}

func (t *predictionTree) init(keys *hashKeys, runIDs *atomic.Uint64) {
	t.children.init(predictionStripes, keys[keyChild])
	t.runIDs = runIDs
}

// find returns the run that a chain of the scope begins with, or nil.
func (t *predictionTree) find(s Scope, block Hash) *runView {
	var root runView
	return t.children.find(s.root(&root), 0, block)
}

// root makes v the root of a scope's chains, so that no root stays in memory. Its id is of no
// run, and its child bits are all set.
func (s Scope) root(v *runView) *runView {
	v.id = uint64(s) | 1<<63
	v.childBits.Store(^uint64(0))
	return v
}

// growLocked puts blocks behind the end of a run as far as its view has memory, and returns
// their number. The run has no children: its only segment would be in them, too.
func (t *predictionTree) growLocked(r *run, chain []Hash) int {
	v := r.view.Load()
	have := int(v.n.Load())
	n := copy(v.all()[have:], chain)
	if n > 0 {
		v.n.Store(uint32(have + n))
		t.blocks.Add(int64(n))
		t.bytes.Add(8 * int64(n))
	}
	return n
}

// leave takes a segment out of its run, and the run out of the tree if it was the last.
func (t *predictionTree) leave(s segment, confirmed bool) {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.predicted.holders[s.slot]
	h.remove(s.blocks, confirmed)
	r.view.Load().setCoverage(s.slot, h.coverage())
	if r.predicted.segments--; r.predicted.segments > 0 {
		return
	}
	r.dead.Store(true)
	t.children.remove(r)
	t.runs.Add(-1)
	t.blocks.Add(-int64(len(r.hashes())))
	t.bytes.Add(-predictedBytes(len(r.hashes())))
}

// newPredictedRun returns the memory of a run with room for that many blocks, and its size
// class.
func newPredictedRun(blocks int) (*predictedRun, int) {
	class := classOf(blocks)
	return (*predictedRun)(reflect.New(predictedTypes[class]).UnsafePointer()), class
}

// predictedBytes returns the bytes of a predicted run of n blocks.
func predictedBytes(n int) int64 { return predictedRunBytes + 8*int64(n) }

// slot returns the worker's slot, given now if it has none.
func (p *predictedPart) slot(v *runView, w Worker) uint32 {
	free := -1
	for i := range p.holders {
		switch {
		case len(p.holders[i].counts) == 0:
			free = i
		case p.holders[i].worker == w:
			return uint32(i)
		}
	}
	if free >= 0 {
		if t := v.table.Load(); t != nil {
			t.reuses.Add(1)
		}
		p.holders[free].worker = w
		return uint32(free)
	}
	n := len(p.holders)
	p.holders = append(p.holders, predictedHolder{worker: w})
	v.makeRoom(n + 1)
	return uint32(n)
}

// count returns the count of a length, made if missing.
func (h *predictedHolder) count(blocks uint32) *segmentCount {
	for i := range h.counts {
		if h.counts[i].blocks == blocks {
			return &h.counts[i]
		}
	}
	h.counts = append(h.counts, segmentCount{blocks: blocks})
	return &h.counts[len(h.counts)-1]
}

func (h *predictedHolder) add(blocks uint32, confirmed bool) {
	c := h.count(blocks)
	c.n++
	if confirmed {
		c.confirmed++
	}
}

func (h *predictedHolder) remove(blocks uint32, confirmed bool) {
	c := h.count(blocks)
	if confirmed {
		c.confirmed--
	}
	if c.n--; c.n == 0 {
		last := len(h.counts) - 1
		*c = h.counts[last]
		h.counts = h.counts[:last]
	}
}

// coverage returns the longest segment, and the longest confirmed one in place of the GPU's
// blocks.
func (h *predictedHolder) coverage() uint64 {
	longest, confirmed := uint32(0), uint32(0)
	for _, c := range h.counts {
		longest = max(longest, c.blocks)
		if c.confirmed > 0 {
			confirmed = max(confirmed, c.blocks)
		}
	}
	return packCoverage(h.worker, longest, confirmed)
}
