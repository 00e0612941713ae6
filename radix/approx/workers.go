package approx

// AddWorker begins w anew: it holds nothing. capacity bounds its believed cache in units: the
// engine's KV tokens (max_total_num_tokens) over the tokens of a unit. Learnt capacities stay below
// it; 0 is no bound.
func (t *Tree) AddWorker(w Worker, capacity int) {
	t.mu.Lock()
	if n := int(w) + 1 - len(t.caches); n > 0 {
		t.caches = append(t.caches, make([]*cache, n)...)
		t.nodes.bytes += int64(n) * cacheBytes // of the numbers: their caches follow each other
	}
	c := t.replaceLocked(w)
	t.caches[w].limit = max(int64(capacity), 0)
	t.caches[w].capacity = t.caches[w].limit
	t.trimLocked(t.caches[w], 0)
	t.mu.Unlock()
	t.drain(c)
}

// replaceLocked gives w an empty cache and returns its last one, which has ended.
func (t *Tree) replaceLocked(w Worker) *cache {
	old := t.caches[w]
	t.serial++
	c := &cache{worker: w, serial: t.serial, born: t.clock}
	c.list.init(ofCache)
	t.caches[w] = c
	t.endLocked(old)
	return old
}

// cacheLocked returns the present cache of a worker, or nil.
func (t *Tree) cacheLocked(w Worker) *cache {
	if uint64(w) >= uint64(len(t.caches)) {
		return nil
	}
	return t.caches[w]
}

// Clear forgets all that w holds, as after a restart or a flush of its cache. Its capacity
// stays known. Look-ups that begin after Clear has begun do not see the old holdings.
func (t *Tree) Clear(w Worker) {
	t.mu.Lock()
	c := t.cacheLocked(w)
	if c != nil {
		t.replaceLocked(w)
		t.caches[w].limit, t.caches[w].capacity = c.limit, c.capacity
	}
	t.mu.Unlock()
	t.drain(c)
}

// RemoveWorker forgets w. Removing an unknown worker does nothing.
func (t *Tree) RemoveWorker(w Worker) {
	t.mu.Lock()
	c := t.cacheLocked(w)
	if c != nil {
		t.caches[w] = nil
		t.endLocked(c)
	}
	t.mu.Unlock()
	t.drain(c)
}

// endLocked ends a cache, if there is one: look-ups skip it from now on.
func (t *Tree) endLocked(c *cache) {
	if c != nil {
		c.ended = true
		t.ending++
	}
}

// drainBatch is the number of holdings dropped under one lock: look-ups wait some 20 µs.
const drainBatch = 64

// drain drops the holdings of an ended cache, if there is one, and lets others take the lock in
// between.
func (t *Tree) drain(c *cache) {
	for done := c == nil; !done; {
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
