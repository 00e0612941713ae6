package radix

// Remove takes one copy of each block away from a tier of w, and returns how many there were none of. These change nothing.
func (x *Index) Remove(w Worker, t Tier, engine []uint64) (unknown int) {
	o := x.lock(w)
	if o == nil {
		x.count.unknownRemovals.Add(int64(len(engine)))
		return len(engine)
	}
	defer o.unlock()
	var at *hold // its run is locked; neighbours are mostly removed together
	for _, key := range engine {
		p, ok := o.takeLocked(key, t)
		if !ok {
			unknown++
			continue
		}
		if p.hold == nil {
			continue
		}
		if at != p.hold {
			if at != nil {
				x.leaveLocked(o, at)
			}
			at = p.hold
			at.run.mu.Lock()
		}
		for t, n := range p.n {
			if n > 0 {
				at.release(p.offset, Tier(t))
				at.run.dropped++
			}
		}
	}
	if at != nil {
		x.leaveLocked(o, at)
	}
	x.settleLocked(o)
	x.count.unknownRemovals.Add(int64(unknown))
	return unknown
}

// takeLocked takes one copy out of the table. ok is false if there is none; the place is that of a block whose last copy in
// a tier this was, and has no hold otherwise.
func (o *worker) takeLocked(key uint64, t Tier) (p place, ok bool) {
	e := o.table.find(key)
	if e == nil {
		return place{}, false
	}
	if e.handle == aliased {
		return place{}, o.takeAliasLocked(key, t)
	}
	if t == TierUnknown {
		t = e.n.fastest()
	}
	if t >= tiers || e.n[t] == 0 {
		return place{}, false
	}
	e.n[t]--
	if e.n[t] > 0 {
		return place{}, true
	}
	p = place{hold: o.holds[e.handle], offset: e.offset}
	p.n[t] = 1
	if e.empty() {
		// An empty entry ends other keys' probing: put the copy back until remove has closed the gap.
		e.n[t] = 1
		o.table.remove(key)
	}
	return p, true
}

// fastest returns the fastest tier with a copy.
func (n *copies) fastest() Tier {
	for t := range n {
		if n[t] > 0 {
			return Tier(t)
		}
	}
	return TierUnknown
}

// Clear drops all that w holds.
func (x *Index) Clear(w Worker) {
	o := x.lock(w)
	if o == nil {
		return
	}
	defer o.unlock()
	x.clearLocked(o)
}

func (x *Index) clearLocked(o *worker) {
	holds := o.holds
	o.table = engines{}
	o.holds, o.spare, o.aliases = nil, nil, nil
	for _, h := range holds {
		if h == nil {
			continue
		}
		r := h.run
		r.mu.Lock()
		r.dropped += h.live
		r.dropLocked(h)
		x.reapLocked(r)
	}
}

// leaveLocked publishes what h holds now, or drops it if that is nothing, and unlocks its run.
func (x *Index) leaveLocked(o *worker, h *hold) {
	r := h.run
	if h.live == 0 {
		r.dropLocked(h)
		o.dropLocked(h)
	} else {
		h.advance()
		r.leads.Load().set(h.slot, h.lead())
	}
	x.reapLocked(r)
}

// reapLocked frees r if nobody needs it, then unlocks it; then the same for its parent, which has lost a child, and so on up.
// Each run is unlocked before the next is locked: a dead one stays in the child table meanwhile, and writers that find it
// there put another in its place.
func (x *Index) reapLocked(r *run) {
	for {
		dead := r.reapLocked(&x.count)
		r.checkLocked()
		r.mu.Unlock()
		if !dead {
			return
		}
		x.children.remove(r)
		r = r.parent
		r.mu.Lock()
		r.kids--
	}
}
