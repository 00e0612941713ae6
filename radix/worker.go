package radix

import (
	"sync"
	"sync/atomic"
)

// Worker is a holder of blocks: one data-parallel rank, or one group of KV layers of it. Ids are dense, and an id is used again only
// after all that its last owner held is gone.
type Worker uint32

// worker is one owner of an id; the next owner gets a new one, so a late writer cannot write into it.
type worker struct {
	id Worker

	mu      sync.Mutex
	removed bool              // guarded by mu, as is all below
	table   engines           // engine hash to place, where places does not tell it all
	named   int               // engine hashes that are bits of holds
	holds   []*hold           // by handle, nil where free
	onRun   map[uint64]uint32 // handle of the hold by run id, but where the run has it as its own; nil as good as empty
	spare   []uint32          // free handles
	aliases map[uint64]*alias // by engine hash; nil as good as always
	later   []change          // scratch of a call
	held    int64             // bytes of holds
	mapped  int               // the most holds that onRun has had

	entries   atomic.Int64  // table.len + named, for readers
	holdCount atomic.Int64  // holds that are not nil
	bytes     atomic.Int64  // that are counted for it
	room      atomic.Int64  // entries that the table takes without growing
	doubling  atomic.Int64  // bytes that it takes then
	partial   atomic.Bool   // see Index.Partial; written under mu
	total     *atomic.Int64 // bytes of the index
}

// place is a block of a run, with its copies.
type place struct {
	hold   *hold
	offset uint32
	n      copies
}

// AddWorker returns the id of a new worker, which holds nothing.
func (x *Index) AddWorker() Worker {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := *x.workers.Load()
	// Copied because look-ups read the table without the lock; workers come and go a few times a minute.
	table := make([]*worker, len(old), len(old)+1)
	copy(table, old)
	var id Worker
	if n := len(x.free); n > 0 {
		id = x.free[n-1]
		x.free = x.free[:n-1]
	} else {
		id = Worker(len(table))
		if id == maxWorkers {
			panic("radix: more than a million workers") //nolint:forbidigo // ids leak: nothing sensible can follow
		}
		table = append(table, nil)
	}
	o := &worker{id: id, total: &x.count.bytes}
	o.mu.Lock()
	o.unlock()
	table[id] = o
	x.workers.Store(&table)
	return id
}

// RemoveWorker drops all that w holds and gives its id back. Removing an unknown worker does nothing.
//
// A Match that runs meanwhile may still name w. A caller that keeps ids beyond one Match must itself forget w first.
func (x *Index) RemoveWorker(w Worker) {
	o := x.takeOut(w)
	if o == nil {
		return
	}
	o.mu.Lock()
	o.removed = true
	x.clearLocked(o)
	o.unlock()

	x.mu.Lock()
	x.free = append(x.free, w)
	x.mu.Unlock()
}

// takeOut removes w from the table and returns it; its id stays taken.
func (x *Index) takeOut(w Worker) *worker {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.worker(w)
	if o == nil {
		return nil
	}
	table := append([]*worker(nil), *x.workers.Load()...)
	table[w] = nil
	x.workers.Store(&table)
	return o
}

// worker returns the present owner of an id, or nil.
func (x *Index) worker(w Worker) *worker {
	table := *x.workers.Load()
	if uint64(w) >= uint64(len(table)) {
		return nil
	}
	return table[w]
}

// lock returns the owner of an id with its lock held, or nil.
func (x *Index) lock(w Worker) *worker {
	o := x.worker(w)
	if o == nil {
		return nil
	}
	o.mu.Lock()
	if o.removed {
		o.mu.Unlock()
		return nil
	}
	return o
}

// unlock publishes the sizes and unlocks.
func (o *worker) unlock() {
	publish(&o.entries, int64(o.table.len+o.named))
	publish(&o.holdCount, int64(len(o.holds)-len(o.spare)))
	slots := int64(len(o.table.slots))
	publish(&o.room, slots*3/4-int64(o.table.len))
	publish(&o.doubling, slots*entryBytes)
	if size, was := o.size(), o.bytes.Load(); size != was {
		o.bytes.Store(size)
		o.total.Add(size - was)
	}
	o.mu.Unlock()
}

// publish stores v where it is another: most numbers stay, and a store costs several loads.
func publish(to *atomic.Int64, v int64) {
	if to.Load() != v {
		to.Store(v)
	}
}

// Blocks returns how many engine hashes w holds in any tier; 0 for an unknown worker.
func (x *Index) Blocks(w Worker) int {
	o := x.worker(w)
	if o == nil {
		return 0
	}
	return int(o.entries.Load())
}

// holdLocked returns the worker's hold on r, made if need be. Both are locked.
func (o *worker) holdLocked(r *run) *hold {
	if h := o.holdOn(r); h != nil {
		return h
	}
	h := r.room
	if r.room = nil; h == nil {
		h = new(hold)
	} else {
		h.born = true
	}
	h.run, h.worker, h.has[TierGPU] = r, o.id, h.ownHas[:0]
	if n := len(o.spare); n > 0 {
		h.handle = o.spare[n-1]
		o.spare = o.spare[:n-1]
		o.holds[h.handle] = h
	} else {
		h.handle = uint32(len(o.holds))
		o.holds = append(o.holds, h)
	}
	if r.own.Load() == nil {
		h.own = true
		r.own.Store(h)
	} else {
		if o.onRun == nil {
			o.onRun = make(map[uint64]uint32)
		}
		o.onRun[r.id] = h.handle
		o.mapped = max(o.mapped, len(o.onRun))
	}
	r.addLocked(h)
	return h
}

// holdOn returns the worker's hold on r, or nil. The run's lock is not needed.
func (o *worker) holdOn(r *run) *hold {
	// Most runs have one holder, so this spares the map, which misses the cache. Another's hold may go meanwhile, but never changes hands.
	if h := r.own.Load(); h != nil && h.worker == o.id {
		return h
	}
	if len(o.onRun) == 0 {
		return nil
	}
	if i, ok := o.onRun[r.id]; ok {
		return o.holds[i]
	}
	return nil
}

// dropLocked forgets a hold that holds nothing. The run's lock is not needed.
func (o *worker) dropLocked(h *hold) {
	o.holds[h.handle] = nil
	if !h.own {
		delete(o.onRun, h.run.id)
	}
	o.held -= int64(h.weight)
	h.weight = 0
	o.spare = append(o.spare, h.handle)
	if len(o.spare) == len(o.holds) {
		o.holds, o.spare, o.onRun, o.mapped = nil, nil, nil, 0
	}
}
