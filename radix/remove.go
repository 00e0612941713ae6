package radix

// Remove takes one copy of each block away from a tier of w, and returns how many there were none of. These change nothing.
func (x *Index) Remove(w Worker, t Tier, engine []uint64) (unknown int) {
	o := x.lock(w)
	if o == nil {
		x.count.unknownRemovals.Add(int64(len(engine)))
		return len(engine)
	}
	defer o.unlock()
	unknown = x.removeLocked(o, t, engine)
	x.count.unknownRemovals.Add(int64(unknown))
	return unknown
}

func (x *Index) removeLocked(o *worker, t Tier, engine []uint64) (unknown int) {
	var at *hold // its run is locked; neighbours are mostly removed together
	var near uint32
	for i := 0; i < len(engine); i++ {
		if at != nil {
			var n int
			near, n = o.takeRowLocked(at, near, t, engine[i:])
			if i += n; i == len(engine) {
				break
			}
		}
		p, named, ok := x.takeLocked(o, at, near, engine[i], t)
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
		near = p.offset
		o.dropCopyLocked(&p, named)
	}
	if at != nil {
		x.leaveLocked(o, at)
	}
	x.settleLocked(o)
	return unknown
}

// loseLocked is for blocks that the worker holds at places that cannot be found out: what was known under their names may be another block.
func (x *Index) loseLocked(o *worker, engine []uint64) {
	o.partial.Store(true)
	for t := range Tier(tiers) {
		for x.removeLocked(o, t, engine) < len(engine) {
			continue // there are more copies
		}
	}
}

// dropCopyLocked takes the copies that p counts from its hold, whose run is locked.
func (o *worker) dropCopyLocked(p *place, named bool) {
	for t, n := range p.n {
		if n == 0 {
			continue
		}
		p.hold.run.dropped++
		if !named {
			p.hold.release(p.offset, Tier(t))
		} else if gone, ok := p.hold.leave(int(p.offset), int(p.offset)+1, Tier(t)); ok {
			o.named -= gone
		}
	}
}

// takeRowLocked takes a copy of each of the blocks next to one of a hold away, as long as names goes on with theirs, upwards as SGLang
// removes a node or downwards as a tail goes. It returns the last of them and how many they were. The hold's run is locked.
func (o *worker) takeRowLocked(h *hold, near uint32, t Tier, names []uint64) (last uint32, n int) {
	r := h.run
	// Where a name of the run belongs to another place too, or is not claimed yet, each is looked up by itself.
	if t >= tiers || near >= r.claimed || len(r.unnamed) > 0 {
		return near, 0
	}
	listed := r.listed()[:r.claimed]
	from, down := int(near)+1, false
	if n = agree(listed[from:], names); n == 0 {
		for n < len(names) && n < int(near) && listed[int(near)-1-n] == names[n] {
			n++
		}
		from, down = int(near)-n, true
	}
	if n = min(n, o.table.absent(names[:n])); down {
		from = int(near) - n
	}
	gone, ok := h.leave(from, from+n, t)
	if !ok || n == 0 {
		return near, 0
	}
	o.named -= gone
	r.dropped += n
	if down {
		return uint32(from), n
	}
	return uint32(from + n - 1), n
}

// takeLocked takes one copy out of the table, if it is there. ok is false if there is none anywhere; the place is that of a block
// whose last copy in a tier this was, and has no hold otherwise. It is named if the copy is a bit of the hold, which is still set.
// The run of at, if any, is locked: the block behind the one removed last is often the next.
func (x *Index) takeLocked(o *worker, at *hold, near uint32, key uint64, t Tier) (p place, named, ok bool) {
	e := o.table.find(key)
	switch {
	case e == nil && at != nil && at.run.named(near+1, key):
		p, named = place{hold: at, offset: near + 1, n: at.copies(near + 1)}, true
	case e == nil:
		p, named = x.heldLocked(o, key), true
	case e.handle == aliased:
		return place{}, false, o.takeAliasLocked(key, t)
	default:
		p = place{hold: o.holds[e.handle], offset: e.offset, n: e.n}
	}
	if t == TierUnknown {
		t = p.n.fastest()
	}
	if t >= tiers || p.n[t] == 0 {
		return place{}, false, false
	}
	p.n = copies{}
	p.n[t] = 1
	if named {
		return p, true, true
	}
	e.n[t]--
	if e.n[t] > 0 {
		return place{}, false, true
	}
	if e.empty() {
		// An empty entry ends other keys' probing: put the copy back until remove has closed the gap.
		e.n[t] = 1
		o.table.remove(key)
	}
	return p, false, true
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
	// The worker forgets first and its runs after: its lock is held throughout, and a run's lock is held for that run only.
	holds := o.holds
	o.table = engines{}
	o.holds, o.spare, o.aliases, o.onRun, o.named, o.held, o.mapped = nil, nil, nil, nil, 0, 0, 0
	o.partial.Store(false)
	for _, h := range holds {
		if h == nil {
			continue
		}
		r := h.run
		r.mu.Lock()
		r.dropped += int(h.live)
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
		o.weighLocked(h)
		r.setLeadLocked(h.slot, h.lead())
	}
	x.reapLocked(r)
}

// reapLocked frees r if nobody needs it, then unlocks it; then the same for its parent, which has lost a child, and so on up.
// Each run is unlocked before the next is locked: a dead one stays in the child table meanwhile, and writers that find it
// there put another in its place.
func (x *Index) reapLocked(r *run) {
	for {
		dead := r.reapLocked(x)
		idle := r.parent == nil && r.kids == 0
		r.checkLocked()
		r.mu.Unlock()
		if idle {
			x.retire(r)
		}
		if !dead {
			return
		}
		x.children.remove(r)
		r = r.parent
		r.mu.Lock()
		r.kids--
	}
}
