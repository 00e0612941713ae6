package radix

import "math/bits"

// eviction takes from the index what is wanted least. Budget.mu is held, and nothing else.
type eviction struct {
	x     *Index
	until int64               // bytes to come to
	later map[*worker]*[]*run // runs that a worker holds by entries of its own, too
	owed  int64               // bytes that these will give
	ids   []Worker            // scratch
}

// evict gives back so many bytes, or somewhat more, and reports whether it found anything to give.
//
// A clock's hand goes round over the runs. Whoever comes through a run, by a look-up or a store, sets its mark, and the hand takes the mark
// away; a run that it finds without one goes, if it has no children. So a run that is in use stays, one that nobody came back to goes
// within a turn, and what is left of each chain is its beginning. All workers lose the run at once, each under its own lock.
func (x *Index) evict(bytes int64) bool {
	e := eviction{x: x, until: x.used() - bytes, later: make(map[*worker]*[]*run)}
	// The hand goes twice around without finding a victim only if there is none: the first turn has taken all marks.
	found, idle := false, 0
	for x.used()-e.owed > e.until && idle <= 2*int(x.places.top()) {
		r := x.turn()
		for idle++; r != nil && r.parent != nil && e.evict(r); r = r.parent {
			// Where it was the last child, its parent may be next, which was seen no later.
			found, idle = true, 0
		}
	}
	for o, runs := range e.later {
		o.mu.Lock()
		if !o.removed {
			x.dropEntriesLocked(o, *runs)
		}
		o.unlock()
	}
	return found
}

// turn moves the hand on, and returns the run there unless somebody has come through since the last turn.
func (x *Index) turn() *run {
	b, top := &x.budget, x.places.top()
	if top == 0 {
		return nil
	}
	if b.hand++; b.hand > top {
		b.hand = 1
	}
	r := x.places.run(b.hand).Load()
	if r == nil {
		return nil
	}
	if f := r.face.Load(); f.wanted.Load() != 0 {
		f.wanted.Store(0)
		return nil
	}
	return r
}

// top returns the highest handle so far.
func (p *places) top() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// evict takes a run that nobody wants from all workers that hold it, unless it has children. It reports whether all are gone, or will be.
func (e *eviction) evict(r *run) bool {
	r.mu.Lock()
	ok := r.kids == 0 && !r.dead.Load() && r.face.Load().wanted.Load() == 0
	e.ids = e.ids[:0]
	for _, h := range r.holds {
		if h != nil {
			e.ids = append(e.ids, h.worker)
		}
	}
	r.mu.Unlock()
	if !ok {
		return false
	}
	for _, id := range e.ids {
		o := e.x.lock(id)
		if o == nil {
			continue
		}
		ok = e.drop(o, r) && ok
		o.unlock()
	}
	if ok && r.dead.Load() {
		e.x.budget.runs.Add(1)
	}
	return ok
}

// drop takes a run from a worker, which is locked, unless it has got children meanwhile.
func (e *eviction) drop(o *worker, r *run) bool {
	h := o.holdOn(r)
	if h == nil {
		return true
	}
	r.mu.Lock()
	if r.kids > 0 {
		r.mu.Unlock()
		return false
	}
	if h.odd == nil {
		e.x.dropHoldLocked(o, h)
		return true
	}
	e.owed += int64(h.weight) + int64(r.weight)
	r.mu.Unlock()
	runs := e.later[o]
	if runs == nil {
		runs = new([]*run)
		e.later[o] = runs
		// One pass over the worker's table costs as much for one run as for many.
		e.until -= int64(len(o.table.slots)) * entryBytes / 8
	}
	*runs = append(*runs, r)
	return true
}

// dropHoldLocked takes a hold from a worker that has no entries for it. Its run is locked, and comes back unlocked.
func (x *Index) dropHoldLocked(o *worker, h *hold) {
	o.partial.Store(true)
	gone := 0
	for i := range (h.top() + 63) / 64 {
		gone += bits.OnesCount64(h.named(i))
	}
	o.named -= gone
	x.budget.blocks.Add(int64(gone))
	h.run.dropped += int(h.live)
	h.live = 0
	x.leaveLocked(o, h)
}

// dropEntriesLocked takes runs from a worker that holds them by entries, too. These do not say whose they are: so all are looked at, once.
func (x *Index) dropEntriesLocked(o *worker, runs []*run) {
	var doomed []uint64 // a bit for each handle
	var holds []*hold
	for _, r := range runs {
		h := o.holdOn(r)
		if h == nil || bit(doomed, h.handle) {
			continue
		}
		r.mu.Lock()
		// What has no children now gets none of this worker's as long as it is locked.
		if r.kids == 0 {
			setBit(&doomed, h.handle)
			holds = append(holds, h)
		}
		r.mu.Unlock()
	}
	for key, a := range o.aliases {
		o.dropPlacesLocked(key, a, doomed)
	}
	had := o.table.len
	o.table.removeAll(func(e *entry) bool { return e.handle != aliased && bit(doomed, e.handle) })
	x.budget.blocks.Add(int64(had - o.table.len))
	for _, h := range holds {
		r := h.run
		r.mu.Lock()
		x.dropHoldLocked(o, h)
		if r.dead.Load() {
			x.budget.runs.Add(1)
		}
	}
	x.settleLocked(o)
}

// dropPlacesLocked forgets the places of an alias on holds that go. The removals so far may have hit any place, so they go on counting
// against those that stay.
func (o *worker) dropPlacesLocked(key uint64, a *alias, doomed []uint64) {
	left := a.places[:0]
	for _, p := range a.places {
		if !bit(doomed, p.hold.handle) {
			left = append(left, p)
		}
	}
	if len(left) == len(a.places) {
		return
	}
	clear(a.places[len(left):])
	a.places = left
	a.forgive()
	o.shrinkAliasLocked(key, a)
}
