package radix

import (
	"sync"
	"sync/atomic"
)

// budget bounds what the index takes. Blocks that come reserve room first, and where there is none, others go: see [Index.evict].
type budget struct {
	max      int64 // bytes; 0: no bound
	soft     int64 // at which blocks go: the rest is for tables that grow
	reserved atomic.Int64

	blocks  atomic.Int64 // copies evicted
	runs    atomic.Int64 // runs that died of it
	parents atomic.Int64 // stores refused as their parent was evicted
	refused atomic.Int64 // stores refused as there was no room at all

	mu   sync.Mutex // held by who evicts, who holds nothing else; above all other locks
	hand uint32     // the handle that the clock came to; guarded by mu
}

const (
	// minBudget holds the tables of an empty index and some thousand blocks.
	minBudget = 1 << 20
	// softShare of the budget is kept for tables: those that grow at once, as stripes and a worker's handles do, are that small.
	softShare = 64
	// roundShare of the budget is evicted at once: so writers stop for it rarely, and not for long.
	roundShare = 256

	// callBytes and newBlockBytes are what a store may take: a run and a hold, and for each block its hash, its name and the place of that
	// with what lies idle. An entry of the worker's own is no larger than the place.
	callBytes     = 2048
	newBlockBytes = 64

	// farOff is how many such calls fit at once before any of them needs to reserve: more than there are cores.
	farOff = 64
)

func (b *budget) init(most int64) {
	if most > 0 {
		b.max = max(most, minBudget)
		b.soft = b.max - b.max/softShare
	}
}

// used returns the bytes that the index takes.
func (x *Index) used() int64 {
	return x.count.bytes.Load() + x.children.bytes() + x.places.bytes()
}

// tight reports whether the index had better not grow by so many bytes for speed only.
func (x *Index) tight(more int64) bool {
	return x.budget.max > 0 && x.used()+x.budget.reserved.Load()+more > x.budget.soft
}

// need returns what a store of so many blocks may take.
func (x *Index) need(o *worker, blocks int) int64 {
	n := callBytes + newBlockBytes*int64(blocks) + x.places.growth(int64(blocks))
	if room := o.room.Load(); room < int64(blocks) {
		n += o.doubling.Load()
	}
	return n
}

// reserve makes room for so many blocks of a worker. What it returns goes back by release, once they are counted. The caller holds no lock.
func (x *Index) reserve(o *worker, blocks int) (int64, error) {
	if x.budget.max == 0 {
		return 0, nil
	}
	// Fast path: the end is far.
	need := x.need(o, blocks)
	if x.used()+farOff*need <= x.budget.soft {
		return 0, nil
	}
	for x.used()+x.budget.reserved.Add(need) > x.budget.soft {
		x.release(need)
		if !x.makeRoom(o, blocks) {
			x.budget.refused.Add(1)
			return 0, ErrBudget
		}
		need = x.need(o, blocks)
	}
	return need, nil
}

// lose is for a store that was refused.
func (x *Index) lose(w Worker, engine []uint64) {
	if o := x.lock(w); o != nil {
		x.loseLocked(o, engine)
		o.unlock()
	}
}

func (x *Index) release(need int64) { x.budget.reserved.Add(-need) }

// makeRoom evicts until a store fits, and reports whether it may.
func (x *Index) makeRoom(o *worker, blocks int) bool {
	b := &x.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	over := x.used() + b.reserved.Load() + x.need(o, blocks) - b.soft
	if over <= 0 {
		return true // another one has evicted meanwhile
	}
	return x.evict(over + b.max/roundShare)
}

// shrink evicts until an index that was loaded is within its budget.
func (x *Index) shrink() {
	b := &x.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.max > 0 {
		if over := x.used() - b.soft; over <= 0 || !x.evict(over) {
			return
		}
	}
}

// Partial reports whether the budget has kept blocks of w out of the index, or taken them from it, since w was last cleared. Removals that
// are unknown, and [ErrBudget], are to be expected then.
func (x *Index) Partial(w Worker) bool {
	o := x.worker(w)
	return o != nil && o.partial.Load()
}

// SetPartial says that blocks of w were left out before what was loaded was saved.
func (x *Index) SetPartial(w Worker) {
	if o := x.lock(w); o != nil {
		o.partial.Store(true)
		o.mu.Unlock()
	}
}
