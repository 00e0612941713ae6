package radix

import "sync"

// evictor keeps the tree within its memory budget. It evicts by CLOCK: a hand goes round over
// the runs and clears their reference bits, which look-ups and stores set; a run without the
// bit is evicted if it has no children. So a run in use stays, an unused one goes within a
// turn, and a chain loses its end first. All workers lose a run at once, each under its own
// lock.
type evictor struct {
	tree    *tree
	workers *workerTable

	mu   sync.Mutex // before all other locks
	hand uint32     // handle of the run where the hand is; guarded by mu
}

// evictionRound is one call of evictLocked.
type evictionRound struct {
	evictor  *evictor
	until    int64               // bytes to come down to
	deferred map[*worker]*[]*run // runs that a worker holds by entries, too
	owed     int64               // bytes that these will free
	ids      []Worker            // scratch
}

// evictLocked frees at least that many bytes, and reports whether it found a run to evict.
func (e *evictor) evictLocked(bytes int64) bool {
	c := evictionRound{evictor: e, until: e.tree.bytes() - bytes}
	c.deferred = make(map[*worker]*[]*run)
	// The first turn clears all reference bits, so two turns without a victim mean that there
	// is none.
	found, idle := false, 0
	for e.tree.bytes()-c.owed > c.until && idle <= 2*int(e.tree.blocks.runs.highest()) {
		r := e.advanceHand()
		for idle++; r != nil && r.parent != nil && c.evict(r); r = r.parent {
			// The parent was used no later, and may have lost its last child.
			found, idle = true, 0
		}
	}
	for w, runs := range c.deferred {
		w.mu.Lock()
		if !w.removed {
			e.evictEntriesLocked(w, *runs)
		}
		w.unlock()
	}
	return found
}

// advanceHand moves the hand on and returns the run there, or nil if its reference bit was set.
func (e *evictor) advanceHand() *run {
	highest := e.tree.blocks.runs.highest()
	if highest == 0 {
		return nil
	}
	if e.hand++; e.hand > highest {
		e.hand = 1
	}
	r := e.tree.blocks.runs.run(e.hand).Load()
	if r == nil {
		return nil
	}
	if v := r.view.Load(); v.referenced.Load() != 0 {
		v.referenced.Store(0)
		return nil
	}
	return r
}

// evict takes a run from all workers, unless it is referenced or has children. It reports
// whether all have lost it, or will.
func (c *evictionRound) evict(r *run) bool {
	r.mu.Lock()
	ok := r.children == 0 && !r.dead.Load() && r.view.Load().referenced.Load() == 0
	c.ids = c.ids[:0]
	for _, h := range r.holders.slots {
		if h != nil {
			c.ids = append(c.ids, h.worker)
		}
	}
	r.mu.Unlock()
	if !ok {
		return false
	}
	for _, id := range c.ids {
		w := c.evictor.workers.lock(id)
		if w == nil {
			continue
		}
		ok = c.evictFrom(w, r) && ok
		w.unlock()
	}
	if ok && r.dead.Load() {
		c.evictor.tree.count.evictedRuns.Add(1)
	}
	return ok
}

// evictFrom takes a run from a worker, which is locked, unless the run has got children
// meanwhile.
func (c *evictionRound) evictFrom(w *worker, r *run) bool {
	h := w.on(r)
	if h == nil {
		return true
	}
	r.mu.Lock()
	if r.children > 0 {
		r.mu.Unlock()
		return false
	}
	if h.entries == nil {
		c.evictor.evictHoldingLocked(w, h)
		return true
	}
	c.owed += int64(h.counted) + int64(r.counted)
	r.mu.Unlock()
	runs := c.deferred[w]
	if runs == nil {
		runs = new([]*run)
		c.deferred[w] = runs
		// A pass over the worker's entries costs the same for one run as for many, so evict
		// more of them.
		c.until -= int64(len(w.entries.slots)) * entryBytes / 8
	}
	*runs = append(*runs, r)
	return true
}

// evictHoldingLocked drops a holding for which the worker has no entries. Its run is locked,
// and is unlocked then.
func (e *evictor) evictHoldingLocked(w *worker, h *holding) {
	w.partial.Store(true)
	gone := h.listedBlocks()
	w.listed -= gone
	e.tree.count.evictedBlocks.Add(int64(gone))
	h.run.removed += int(h.blocks)
	h.blocks = 0
	e.tree.finishLocked(w, h)
}

// evictEntriesLocked takes runs from a worker that holds them by entries, too. An entry is
// found only by its engine hash, so one pass looks at all of them.
func (e *evictor) evictEntriesLocked(w *worker, runs []*run) {
	var evicted []uint64 // a bit for each handle
	var list []*holding
	for _, r := range runs {
		h := w.on(r)
		if h == nil || bit(evicted, h.handle) {
			continue
		}
		r.mu.Lock()
		// A run without children gets none of this worker's while the worker is locked.
		if r.children == 0 {
			setBit(&evicted, h.handle)
			list = append(list, h)
		}
		r.mu.Unlock()
	}
	for key, a := range w.aliases {
		w.dropAliasBlocksLocked(key, a, evicted)
	}
	had := w.entries.len
	w.entries.removeIf(func(e *entry) bool { return e.handle != aliased && bit(evicted, e.handle) })
	e.tree.count.evictedBlocks.Add(int64(had - w.entries.len))
	for _, h := range list {
		h.run.mu.Lock()
		e.evictHoldingLocked(w, h)
		if h.run.dead.Load() {
			e.tree.count.evictedRuns.Add(1)
		}
	}
	e.tree.applyDeferredLocked(w)
}
