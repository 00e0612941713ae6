package radix

import (
	"sync"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Scope is the domain of predictions. It is a hash of the key, so that requests with keys that
// nobody stores leave no entry behind.
type Scope uint64

// Prediction is a chain of blocks that a worker will soon hold, and that [Index.MatchPredicted]
// finds. The zero value predicts nothing. It keeps its memory, so reuse mostly allocates
// nothing. It must not be copied.
type Prediction struct {
	mu        sync.Mutex
	tree      *predictionTree // nil: nothing is predicted; guarded by mu, as is all below
	worker    Worker
	scope     Scope
	confirmed bool
	truncated bool      // memory was short: no more blocks can follow
	segments  []segment // from the first block on
}

// segment is the part of a prediction in one run: the first blocks of it.
type segment struct {
	run    *run
	blocks uint32
	slot   uint32 // of the worker in the run
}

// Confirm says that the worker holds the predicted blocks by now, before any event tells.
func (p *Prediction) Confirm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree == nil || p.confirmed {
		return
	}
	p.confirmed = true
	for _, s := range p.segments {
		s.run.mu.Lock()
		h := &s.run.predicted.holders[s.slot]
		h.count(s.blocks).confirmed++
		s.run.view.Load().setCoverage(s.slot, h.coverage())
		s.run.mu.Unlock()
	}
}

// Extend adds the blocks that follow.
func (p *Prediction) Extend(chain []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree != nil {
		p.addLocked(chain)
	}
}

// Forget takes the prediction back, because events have told of the blocks or the request
// failed. It may be called again.
func (p *Prediction) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
}

func (p *Prediction) startLocked(t *predictionTree, w Worker, s Scope, chain []Hash) {
	p.tree, p.worker, p.scope, p.confirmed, p.truncated = t, w, s, false, false
	t.count.Add(1)
	p.addLocked(chain)
}

func (p *Prediction) forgetLocked() {
	if p.tree == nil {
		return
	}
	// From the end on: look-ups meanwhile find a shorter chain, and a run goes after its
	// children.
	for i := len(p.segments) - 1; i >= 0; i-- {
		p.tree.leave(p.segments[i], p.confirmed)
		p.segments[i].run = nil
	}
	p.tree.count.Add(-1)
	p.tree, p.segments = nil, p.segments[:0]
}

// addLocked adds chain behind the last segment.
func (p *Prediction) addLocked(chain []Hash) {
	chain = chain[p.extendSegmentLocked(chain):]
	for len(chain) > 0 && !p.truncated {
		chain = chain[p.addSegmentLocked(chain):]
	}
}

// extendSegmentLocked extends the last segment as far as its run has the same blocks, and
// returns their number. A run with no other segment takes blocks behind its end, as far as it
// has memory: mostly all that a short answer adds.
func (p *Prediction) extendSegmentLocked(chain []Hash) int {
	if len(p.segments) == 0 || len(chain) == 0 {
		return 0
	}
	s := &p.segments[len(p.segments)-1]
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	blocks := r.hashes()
	n := keyed.CommonPrefix(blocks[s.blocks:], chain)
	if end := int(s.blocks) + n; end == len(blocks) && r.predicted.segments == 1 {
		n += p.tree.growLocked(r, chain[n:])
	}
	if n == 0 {
		return 0
	}
	h := &r.predicted.holders[s.slot]
	h.remove(s.blocks, p.confirmed)
	s.blocks += uint32(n)
	h.add(s.blocks, p.confirmed)
	r.view.Load().setCoverage(s.slot, h.coverage())
	return n
}

// addSegmentLocked adds a segment in the run that continues with chain, and returns its blocks:
// 0 if memory is short.
func (p *Prediction) addSegmentLocked(chain []Hash) int {
	for {
		r, made := p.nextRunLocked(chain)
		if r == nil {
			p.truncated = true
			return 0
		}
		if made {
			n := len(r.hashes())
			p.segments = append(p.segments, segment{run: r, blocks: uint32(n)})
			return n
		}
		r.mu.Lock()
		if r.dead.Load() { // since it was found; it is unlinked
			r.mu.Unlock()
			continue
		}
		n := keyed.CommonPrefix(r.hashes(), chain)
		slot := r.predicted.slot(r.view.Load(), p.worker)
		h := &r.predicted.holders[slot]
		h.add(uint32(n), p.confirmed)
		r.predicted.segments++
		r.view.Load().setCoverage(slot, h.coverage())
		r.mu.Unlock()
		p.segments = append(p.segments, segment{run: r, blocks: uint32(n), slot: slot})
		return n
	}
}

// nextRunLocked returns the run that continues with chain behind the last segment. A run made
// here has the segment already.
func (p *Prediction) nextRunLocked(chain []Hash) (r *run, made bool) {
	t := p.tree
	var root runView
	parent, offset, mu := p.scope.root(&root), uint32(0), &t.mu
	if n := len(p.segments); n > 0 {
		last := p.segments[n-1]
		parent, offset, mu = last.run.view.Load(), last.blocks, &last.run.mu
	}
	if v := t.children.find(parent, offset, chain[0]); v != nil {
		return v.run, false
	}
	chain = chain[:min(len(chain), maxRun)]
	if t.bytes.Load()+predictedBytes(len(chain)) > maxPredictedBytes {
		return nil, false
	}
	v := p.newRunView(parent.id, offset, chain) // copies without the lock
	mu.Lock()
	defer mu.Unlock()
	if v := t.children.find(parent, offset, chain[0]); v != nil {
		return v.run, false
	}
	t.runs.Add(1) // first: look-ups return early while it is 0
	t.children.insert(parent, v)
	t.blocks.Add(int64(len(chain)))
	t.bytes.Add(predictedBytes(len(chain)))
	return v.run, true
}

// newRunView returns the view of a new run with a segment of this prediction.
func (p *Prediction) newRunView(parent uint64, offset uint32, chain []Hash) *runView {
	memory, class := newPredictedRun(min(len(chain)+answerBlocks, maxRun))
	r, v := &memory.run, &memory.view
	r.id, r.offset, r.first, r.predicted = p.tree.runIDs.Add(1), offset, chain[0], &memory.part
	memory.part = predictedPart{segments: 1, holders: memory.holder[:]}
	memory.holder[0] = predictedHolder{worker: p.worker, counts: memory.count[:0]}
	memory.holder[0].add(uint32(len(chain)), p.confirmed)
	v.init(r, parent, chain, class)
	v.single[0].Store(memory.holder[0].coverage())
	r.view.Store(v)
	return v
}
