package approx

// Insert notes that w will hold chain, because a request with it was dispatched there. The result names this moment, for [Tree.Correct].
// An unknown worker changes nothing: it was removed while the request was on its way.
//
// The memory bound and the worker's capacity hold again before Insert returns.
func (t *Tree) Insert(w Worker, chain []Key) Tick {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.ownerLocked(w)
	if o == nil {
		return 0
	}
	t.clock++
	added := t.insertLocked(o, t.clip(o, chain))
	t.trimLocked(o, added)
	return t.clock
}

// clip cuts a chain to what o may hold at all.
func (t *Tree) clip(o *owner, chain []Key) []Key {
	n := min(len(chain), t.maxChain)
	if o.capacity > 0 {
		n = int(min(int64(n), o.capacity))
	}
	return chain[:n]
}

// insertLocked makes o hold chain as of now, and returns how many units it did not hold before.
func (t *Tree) insertLocked(o *owner, chain []Key) int64 {
	before := o.units
	n, above := &t.root, (*hold)(nil)
	for len(chain) > 0 {
		next := t.child(n, chain[0])
		if next == nil {
			next = t.newNodeLocked(n, chain)
			t.linkLocked(next)
			chain = nil
		} else {
			k := common(next.run, chain)
			if k < len(next.run) {
				next = t.splitLocked(next, k)
			}
			chain = chain[k:]
		}
		above = t.useLocked(o, next, above)
		n = next
	}
	return o.units - before
}

// trimBatch is how many holds one call may drop beyond what it added itself: 20 µs, so that a capacity that fell, or a long stale
// tail, does not keep look-ups waiting. The rest goes with the next calls.
const trimBatch = 64

// trimLocked drops what o cannot hold any more, then what the memory bound does not allow.
func (t *Tree) trimLocked(o *owner, added int64) {
	for left := added + trimBatch; left > 0; left-- {
		h := o.list.last()
		switch {
		case h == nil:
			left = 0
		case h.used <= o.stale:
			t.stats.EvictedStale++
			t.dropLocked(h)
		case o.capacity > 0 && o.units > o.capacity:
			t.stats.EvictedCapacity++
			t.dropLocked(h)
		default:
			left = 0
		}
	}
	// Whatever was added can be dropped again, so this always ends within the bound.
	for t.stats.Bytes > t.liveBytes {
		h := t.all.last()
		if h == nil {
			return
		}
		t.stats.EvictedMemory++
		t.dropLocked(h)
	}
}
