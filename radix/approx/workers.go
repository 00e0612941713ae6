package approx

// AddWorker returns the id of a new worker, which holds nothing and has no known capacity.
func (t *Tree) AddWorker() Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := Worker(len(t.caches))
	if n := len(t.free); n > 0 {
		w = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		t.caches = append(t.caches, nil)
		t.nodes.bytes += cacheBytes // of the id: its caches follow each other
	}
	t.caches[w] = t.newCacheLocked(w)
	t.trimLocked(t.caches[w], 0)
	return w
}

func (t *Tree) newCacheLocked(w Worker) *cache {
	t.serial++
	c := &cache{worker: w, serial: t.serial}
	c.list.init(ofCache)
	return c
}

// cacheLocked returns the present cache of a worker, or nil.
func (t *Tree) cacheLocked(w Worker) *cache {
	if uint64(w) >= uint64(len(t.caches)) {
		return nil
	}
	return t.caches[w]
}

// SetCapacity bounds the believed cache of w in units: the engine's KV tokens
// (max_total_num_tokens) over the tokens of a unit. Learnt capacities stay below it. 0 removes
// the bound and the learnt capacity.
func (t *Tree) SetCapacity(w Worker, units int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cacheLocked(w); c != nil {
		c.limit = max(int64(units), 0)
		c.capacity = c.limit
		t.trimLocked(c, 0)
	}
}

// Clear forgets all that w holds, as after a restart or a flush of its cache. Its capacity
// stays known. Look-ups that begin after Clear has begun do not see the old holdings.
func (t *Tree) Clear(w Worker) {
	t.mu.Lock()
	c := t.cacheLocked(w)
	if c == nil {
		t.mu.Unlock()
		return
	}
	t.caches[w] = t.newCacheLocked(w)
	t.caches[w].limit, t.caches[w].capacity = c.limit, c.capacity
	t.endLocked(c)
	t.mu.Unlock()
	t.drain(c)
}

// RemoveWorker forgets w and frees its id. Removing an unknown worker does nothing.
func (t *Tree) RemoveWorker(w Worker) {
	t.mu.Lock()
	c := t.cacheLocked(w)
	if c == nil {
		t.mu.Unlock()
		return
	}
	t.caches[w] = nil
	t.endLocked(c)
	t.mu.Unlock()
	t.drain(c)

	t.mu.Lock()
	t.free = append(t.free, w)
	t.mu.Unlock()
}

// endLocked ends a cache: look-ups skip it from now on.
func (t *Tree) endLocked(c *cache) {
	c.ended = true
	t.ending++
}

// drainBatch is the number of holdings dropped under one lock: look-ups wait some 20 µs.
const drainBatch = 64

// drain drops the holdings of an ended cache, and lets others take the lock in between.
func (t *Tree) drain(c *cache) {
	for done := false; !done; {
		t.mu.Lock()
		for range drainBatch {
			h := c.list.last()
			if h == nil {
				t.ending--
				done = true
				break
			}
			t.nodes.drop(h)
		}
		t.mu.Unlock()
	}
}

// WorkerStats has the beliefs about a worker.
type WorkerStats struct {
	Units    int64 // held
	Capacity int64 // in units; 0: unknown
}

// Worker returns the beliefs about w; all zero for an unknown one.
func (t *Tree) Worker(w Worker) WorkerStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := t.cacheLocked(w)
	if c == nil {
		return WorkerStats{}
	}
	return WorkerStats{Units: c.units, Capacity: c.capacity}
}
