package approx

import "unsafe"

// Worker names a holder. Ids are dense, and used again after [Tree.RemoveWorker].
type Worker uint32

// owner is one life of a worker: clearing or removing it ends that life at once, and what it held is dropped piece by piece.
type owner struct {
	worker   Worker
	serial   uint32 // orders holders; never used again
	dead     bool
	list     list
	units    int64 // sum over its holds
	limit    int64 // configured capacity, 0 without one
	capacity int64 // believed capacity, at most limit where there is one; 0 while nothing is known
	stale    Tick  // what was last used then or before is gone from the engine
}

const ownerBytes = int64(unsafe.Sizeof(owner{})) + int64(unsafe.Sizeof((*owner)(nil)))

// AddWorker returns the id of a new worker, which holds nothing and has no known capacity.
func (t *Tree) AddWorker() Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := Worker(len(t.owners))
	if n := len(t.free); n > 0 {
		w = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		t.owners = append(t.owners, nil)
		t.stats.Bytes += ownerBytes // the id's; what one owner needs is given to the next
	}
	t.owners[w] = t.newOwnerLocked(w)
	t.trimLocked(t.owners[w], 0)
	return w
}

func (t *Tree) newOwnerLocked(w Worker) *owner {
	t.serial++
	o := &owner{worker: w, serial: t.serial}
	o.list.init(ofOwner)
	return o
}

// ownerLocked returns the present owner of an id, or nil.
func (t *Tree) ownerLocked(w Worker) *owner {
	if uint64(w) >= uint64(len(t.owners)) {
		return nil
	}
	return t.owners[w]
}

// SetCapacity bounds what w is believed to hold, in units: the engine's KV tokens (max_total_num_tokens) over the tokens of a unit.
// What answers teach stays below it; 0 means that only answers tell, and forgets what they told.
func (t *Tree) SetCapacity(w Worker, units int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.ownerLocked(w); o != nil {
		o.limit = max(int64(units), 0)
		o.capacity = o.limit
		t.trimLocked(o, 0)
	}
}

// Clear forgets all that w holds, as after a restart or a flush of its cache. Its capacity stays known. Look-ups that begin after
// Clear has begun do not see what it held.
func (t *Tree) Clear(w Worker) {
	t.mu.Lock()
	o := t.ownerLocked(w)
	if o == nil {
		t.mu.Unlock()
		return
	}
	t.owners[w] = t.newOwnerLocked(w)
	t.owners[w].limit, t.owners[w].capacity = o.limit, o.capacity
	t.endLocked(o)
	t.mu.Unlock()
	t.drain(o)
}

// RemoveWorker forgets w and gives its id back. Removing an unknown worker does nothing.
func (t *Tree) RemoveWorker(w Worker) {
	t.mu.Lock()
	o := t.ownerLocked(w)
	if o == nil {
		t.mu.Unlock()
		return
	}
	t.owners[w] = nil
	t.endLocked(o)
	t.mu.Unlock()
	t.drain(o)

	t.mu.Lock()
	t.free = append(t.free, w)
	t.mu.Unlock()
}

// endLocked ends an owner's life: from now on look-ups pass over it.
func (t *Tree) endLocked(o *owner) {
	o.dead = true
	t.draining++
}

// drainBatch is how many holds are dropped under one lock: some 20 µs of waiting for look-ups.
const drainBatch = 64

// drain drops what a dead owner still holds, letting others in between.
func (t *Tree) drain(o *owner) {
	for done := false; !done; {
		t.mu.Lock()
		for range drainBatch {
			h := o.list.last()
			if h == nil {
				t.draining--
				done = true
				break
			}
			t.dropLocked(h)
		}
		t.mu.Unlock()
	}
}

// WorkerStats say what is believed of a worker.
type WorkerStats struct {
	Units    int64 // believed held
	Capacity int64 // believed capacity in units; 0 while nothing is known
}

// Worker returns what is believed of w; all zero for an unknown one.
func (t *Tree) Worker(w Worker) WorkerStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	o := t.ownerLocked(w)
	if o == nil {
		return WorkerStats{}
	}
	return WorkerStats{Units: o.units, Capacity: o.capacity}
}
