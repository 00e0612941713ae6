package radix

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Scope is what predictions have for a domain: it needs no entry that would stay after requests whose keys nobody has ever stored.
type Scope uint64

// Scope returns the scope of k. Different keys have one scope with a probability of about 2^-63.
func (x *Index) Scope(k DomainKey) Scope {
	h := Hash(uint64(k.BlockSize) << 1)
	if k.Bigram {
		h |= 1
	}
	for _, s := range [...]string{k.Model, k.LoRA, k.Salt} {
		h = x.Mix(h, unsafe.Slice(unsafe.StringData(s), len(s)))
	}
	return Scope(h)
}

// Prediction is a chain of blocks that a worker is about to hold, and what [Index.Foresee] knows of it. The zero value predicts nothing.
// It keeps its memory: one that is used again mostly costs no allocation. It must not be copied.
type Prediction struct {
	mu     sync.Mutex
	index  *Index // nil while nothing is predicted; guarded by mu, as is all below
	worker Worker
	scope  Scope
	sure   bool  // Settle was called
	cut    bool  // memory was short: what follows cannot be predicted
	legs   []leg // through the tree, from the first block on
}

// leg is the part of a prediction that lies in one run: the first blocks of it.
type leg struct {
	run    *run
	blocks uint32
	slot   uint32 // of the worker
}

// foretold holds what is predicted of all workers: a tree like that of what they hold, apart from it. So predictions and events never
// wait for each other, and what events say stays in runs that are cut by events alone. A run grows for the only prediction that needs it,
// never shrinks, and is gone when none needs it.
type foretold struct {
	runs     atomic.Int64 // spares look-ups everything while it is 0
	blocks   atomic.Int64 // in runs
	bytes    atomic.Int64 // of runs
	count    atomic.Int64 // predictions
	children children
	mu       sync.Mutex // of whoever adds a run that begins a scope's chains
}

const (
	// maxForetold bounds the memory: 4,096 prompts of 1,024 blocks that have nothing in common take half of it.
	maxForetold = 64 << 20
	// foretoldStripes are few, as are the runs: 1 for each request in flight.
	foretoldStripes = 16

	// answerRoom is how many blocks a short answer adds to its prompt.
	answerRoom = 2

	// shadeBytes are those of a predicted run without its blocks, with one worker.
	shadeBytes = int64(unsafe.Sizeof(newborn{})+2*unsafe.Sizeof(slot{})) + 8*answerRoom
)

// shade is what is predicted of a run, guarded by its lock.
type shade struct {
	passing int     // legs in the run
	seats   []ghost // by slot in leads; free where nothing ends
}

// newborn is a predicted run as it begins, in one piece of memory with its blocks, which lie behind it.
type newborn struct {
	run   run
	shade shade
	seat  [1]ghost
	end   [1]end
	face  face
}

// newborns are its types by size.
var newborns = shapesOf(reflect.TypeFor[newborn](), func(n int) int { return n })

// ghost is what is predicted of one worker in a run.
type ghost struct {
	worker Worker
	ends   []end // one for each number of blocks that legs have
}

// end counts the legs of a worker that have so many blocks.
type end struct {
	blocks  uint32
	n, sure uint32 // all of them; those that are settled
}

// Predict says that w will hold the blocks of chain soon. p, whose last prediction is forgotten, stands for it until Forget. Before w is
// removed, all that is predicted of it must be forgotten. When memory is short, less is predicted.
func (x *Index) Predict(p *Prediction, w Worker, s Scope, chain []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
	if int(w) >= len(*x.workers.Load()) {
		return
	}
	p.index, p.worker, p.scope, p.sure, p.cut = x, w, s, false, false
	x.foretold.count.Add(1)
	p.addLocked(chain)
}

// Settle says that the worker holds by now what was predicted, and will as long as the prediction stands.
func (p *Prediction) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index == nil || p.sure {
		return
	}
	p.sure = true
	for _, l := range p.legs {
		l.run.mu.Lock()
		g := &l.run.shade.seats[l.slot]
		g.at(l.blocks).sure++
		l.run.setLeadLocked(l.slot, g.lead())
		l.run.mu.Unlock()
	}
}

// Extend predicts that the chain goes on with these blocks.
func (p *Prediction) Extend(chain []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index != nil {
		p.addLocked(chain)
	}
}

// Forget takes the prediction back, because events have told or nothing came of it. It may be called again.
func (p *Prediction) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
}

func (p *Prediction) forgetLocked() {
	if p.index == nil {
		return
	}
	// From the end on, so that whoever looks meanwhile finds a shorter chain, and no run goes before those that hang on it.
	for i := len(p.legs) - 1; i >= 0; i-- {
		p.index.leave(p.legs[i], p.sure)
		p.legs[i].run = nil
	}
	p.index.foretold.count.Add(-1)
	p.index, p.legs = nil, p.legs[:0]
}

// addLocked goes on with chain behind the last leg.
func (p *Prediction) addLocked(chain []Hash) {
	chain = chain[p.lengthenLocked(chain):]
	for len(chain) > 0 && !p.cut {
		chain = chain[p.stepLocked(chain):]
	}
}

// lengthenLocked makes the last leg go on in its run as far as that has the same blocks, and returns how many those are. A run that no
// other leg passes takes blocks behind its end, as far as there is memory for them: mostly all that a short answer adds.
func (p *Prediction) lengthenLocked(chain []Hash) int {
	if len(p.legs) == 0 || len(chain) == 0 {
		return 0
	}
	l := &p.legs[len(p.legs)-1]
	r := l.run
	r.mu.Lock()
	defer r.mu.Unlock()
	blocks := r.hashes()
	n := agree(blocks[l.blocks:], chain)
	if end := int(l.blocks) + n; end == len(blocks) && r.shade.passing == 1 {
		n += p.index.foretold.growLocked(r, chain[n:])
	}
	if n == 0 {
		return 0
	}
	g := &r.shade.seats[l.slot]
	g.drop(l.blocks, p.sure)
	l.blocks += uint32(n)
	g.add(l.blocks, p.sure)
	r.setLeadLocked(l.slot, g.lead())
	return n
}

// growLocked puts as many blocks behind the end of a run as its face has memory for, and returns how many those are. Nothing hangs there:
// the run's only leg would pass it.
func (t *foretold) growLocked(r *run, chain []Hash) int {
	f := r.face.Load()
	have := int(f.n.Load())
	n := copy(f.all()[have:], chain)
	if n > 0 {
		f.n.Store(uint32(have + n))
		t.blocks.Add(int64(n))
		t.bytes.Add(8 * int64(n))
	}
	return n
}

// stepLocked adds a leg in the run that goes on with chain behind the last one, and returns its blocks: 0 if memory is short.
func (p *Prediction) stepLocked(chain []Hash) int {
	for {
		r, made := p.nextLocked(chain)
		if r == nil {
			p.cut = true
			return 0
		}
		if made {
			n := len(r.hashes())
			p.legs = append(p.legs, leg{run: r, blocks: uint32(n)})
			return n
		}
		r.mu.Lock()
		if r.dead.Load() { // since it was found, and it is not linked any more
			r.mu.Unlock()
			continue
		}
		n := agree(r.hashes(), chain)
		slot := r.sitLocked(p.worker)
		g := &r.shade.seats[slot]
		g.add(uint32(n), p.sure)
		r.shade.passing++
		r.setLeadLocked(slot, g.lead())
		r.mu.Unlock()
		p.legs = append(p.legs, leg{run: r, blocks: uint32(n), slot: slot})
		return n
	}
}

// nextLocked returns the run that goes on with chain behind the last leg. One that is made has the leg already.
func (p *Prediction) nextLocked(chain []Hash) (r *run, made bool) {
	t := &p.index.foretold
	var root face
	parent, offset, mu := p.scope.root(&root), uint32(0), &t.mu
	if n := len(p.legs); n > 0 {
		r := p.legs[n-1].run
		parent, offset, mu = r.face.Load(), p.legs[n-1].blocks, &r.mu
	}
	if f := t.children.find(parent, offset, chain[0]); f != nil {
		return f.run, false
	}
	chain = chain[:min(len(chain), maxRun)]
	if t.bytes.Load()+costOf(len(chain)) > maxForetold {
		return nil, false
	}
	f := p.newShade(parent.id, offset, chain) // copied without the lock
	mu.Lock()
	defer mu.Unlock()
	if f := t.children.find(parent, offset, chain[0]); f != nil {
		return f.run, false
	}
	t.runs.Add(1) // first: whoever meets the run may look for it at once
	t.children.put(parent, f)
	t.blocks.Add(int64(len(chain)))
	t.bytes.Add(costOf(len(chain)))
	return f.run, true
}

// costOf returns the bytes that a predicted run of n blocks is counted with.
func costOf(n int) int64 { return shadeBytes + 8*int64(n) }

// newShade returns a run whose blocks are predicted.
func (p *Prediction) newShade(parent uint64, offset uint32, chain []Hash) *face {
	s := shapeOf(min(len(chain)+answerRoom, maxRun))
	n := (*newborn)(reflect.New(newborns[s]).UnsafePointer())
	r, f := &n.run, &n.face
	r.id, r.offset, r.first, r.shade = p.index.lastRun.Add(1), offset, chain[0], &n.shade
	n.shade = shade{passing: 1, seats: n.seat[:]}
	n.seat[0] = ghost{worker: p.worker, ends: n.end[:0]}
	n.seat[0].add(uint32(len(chain)), p.sure)
	f.begin(r, parent, chain, s)
	f.solo[0].Store(n.seat[0].lead())
	r.face.Store(f)
	return f
}

// root makes f what chains of a scope begin at: nothing has to be kept of it. Its id is that of no run, and it tells nothing of its children.
func (s Scope) root(f *face) *face {
	f.id = uint64(s) | 1<<63
	f.kids.Store(^uint64(0))
	return f
}

// first returns the run that a chain of the scope begins with, or nil.
func (t *foretold) first(s Scope, block Hash) *face {
	var root face
	return t.children.find(s.root(&root), 0, block)
}

// leave takes a leg out of its run, and the run out of the tree when it was the last.
func (x *Index) leave(l leg, sure bool) {
	r := l.run
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.shade.seats[l.slot]
	g.drop(l.blocks, sure)
	r.setLeadLocked(l.slot, g.lead())
	if r.shade.passing--; r.shade.passing > 0 {
		return
	}
	r.dead.Store(true)
	t := &x.foretold
	t.children.remove(r)
	t.runs.Add(-1)
	t.blocks.Add(-int64(len(r.hashes())))
	t.bytes.Add(-costOf(len(r.hashes())))
}

// sitLocked returns the worker's slot in a predicted run, given now if need be.
func (r *run) sitLocked(w Worker) uint32 {
	seats, free := r.shade.seats, -1
	for i := range seats {
		switch {
		case len(seats[i].ends) == 0:
			free = i
		case seats[i].worker == w:
			return uint32(i)
		}
	}
	f := r.face.Load()
	l := f.leads.Load()
	if free >= 0 {
		if l != nil {
			l.adds.Add(1)
		}
		seats[free].worker = w
		return uint32(free)
	}
	r.shade.seats = append(r.shade.seats, ghost{worker: w})
	if n := len(r.shade.seats); l == nil || n > int(l.size) {
		words, _ := f.words()
		f.leads.Store(leadsOf(words, n))
	}
	return uint32(len(seats))
}

// at returns the end at a number of blocks, made if need be.
func (g *ghost) at(blocks uint32) *end {
	for i := range g.ends {
		if g.ends[i].blocks == blocks {
			return &g.ends[i]
		}
	}
	g.ends = append(g.ends, end{blocks: blocks})
	return &g.ends[len(g.ends)-1]
}

func (g *ghost) add(blocks uint32, sure bool) {
	e := g.at(blocks)
	e.n++
	if sure {
		e.sure++
	}
}

func (g *ghost) drop(blocks uint32, sure bool) {
	e := g.at(blocks)
	if sure {
		e.sure--
	}
	if e.n--; e.n == 0 {
		last := len(g.ends) - 1
		*e = g.ends[last]
		g.ends = g.ends[:last]
	}
}

// lead returns the longest leg and the longest that is settled, as a word for look-ups.
func (g *ghost) lead() uint64 {
	longest, settled := uint32(0), uint32(0)
	for _, e := range g.ends {
		longest = max(longest, e.blocks)
		if e.sure > 0 {
			settled = max(settled, e.blocks)
		}
	}
	return packLead(g.worker, longest, settled)
}
