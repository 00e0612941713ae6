package radix

import "github.com/warmpath/warmpath/radix/internal/keyed"

// removeCall is one call of Index.Remove. The worker is locked throughout, and one run at a
// time.
type removeCall struct {
	tree   *tree
	worker *worker
	tier   Tier
	at     *holding // of the block removed last; its run is locked
	last   uint32   // that block's offset
}

// removeLocked removes one copy of each block from a tier of w, and returns the number of
// blocks that had none.
func removeLocked(t *tree, w *worker, tier Tier, engineHashes []uint64) (unknown int) {
	r := removeCall{tree: t, worker: w, tier: tier}
	for i := 0; i < len(engineHashes); i++ {
		if r.at != nil {
			// Fast path: neighbours are mostly removed together.
			if i += r.neighbours(engineHashes[i:]); i == len(engineHashes) {
				break
			}
		}
		if !r.remove(engineHashes[i]) {
			unknown++
		}
	}
	if r.at != nil {
		t.finishLocked(w, r.at)
	}
	t.applyDeferredLocked(w)
	return unknown
}

// dropAllLocked removes all copies of engine hashes whose blocks have an unknown position: the
// index may know them as other blocks.
func dropAllLocked(t *tree, w *worker, engineHashes []uint64) {
	w.partial.Store(true)
	for tier := range Tier(tiers) {
		for removeLocked(t, w, tier, engineHashes) < len(engineHashes) {
			continue // some have more copies
		}
	}
}

// neighbours removes a copy of each block next to the last one, as far as the engine hashes go
// on with them: upwards as SGLang removes a node, or downwards as a tail goes. It returns their
// number.
func (r *removeCall) neighbours(engineHashes []uint64) (n int) {
	h, last, run := r.at, int(r.last), r.at.run
	// Where an engine hash of the run is a duplicate, or not inserted, each is looked up by
	// itself.
	if r.tier >= tiers || r.last >= run.inserted || len(run.duplicates) > 0 {
		return 0
	}
	listed := run.listed()[:run.inserted]
	from, down := last+1, false
	if n = keyed.CommonPrefix(listed[from:], engineHashes); n == 0 {
		down = true
		for n < len(engineHashes) && n < last && listed[last-1-n] == engineHashes[n] {
			n++
		}
	}
	if n = r.worker.entries.absent(engineHashes[:n]); down {
		from = last - n
	}
	gone, ok := h.removeListed(from, from+n, r.tier)
	if !ok || n == 0 {
		return 0
	}
	r.worker.listed -= gone
	run.removed += n
	if down {
		r.last = uint32(from)
	} else {
		r.last = uint32(from + n - 1)
	}
	return n
}

// remove removes one copy of a block, and reports whether there was one.
func (r *removeCall) remove(engineHash uint64) bool {
	b, listed, ok := r.take(engineHash)
	if !ok || b.holding == nil {
		return ok
	}
	if r.at != b.holding {
		if r.at != nil {
			r.tree.finishLocked(r.worker, r.at)
		}
		r.at = b.holding
		r.at.run.mu.Lock()
	}
	r.last = b.offset
	for t, n := range b.copies {
		if n == 0 {
			continue
		}
		r.at.run.removed++
		if !listed {
			r.at.removeEntry(b.offset, Tier(t))
		} else if gone, ok := r.at.removeListed(int(b.offset), int(b.offset)+1, Tier(t)); ok {
			r.worker.listed -= gone
		}
	}
	return true
}

// take removes one copy from the entry table. It is not ok if there is none anywhere. The
// result has a holding only if this was the block's last copy in the tier. A listed copy is
// still set in its holding.
func (r *removeCall) take(key uint64) (b blockRef, listed, ok bool) {
	w, t := r.worker, r.tier
	e := w.entries.find(key)
	switch {
	case e == nil && r.at != nil && r.at.run.lists(r.last+1, key):
		next := r.last + 1
		b, listed = blockRef{holding: r.at, offset: next, copies: r.at.listedCopies(next)}, true
	case e == nil:
		b, listed = w.findListed(&r.tree.blocks, key), true
	case e.handle == aliased:
		return blockRef{}, false, w.removeAliasCopyLocked(key, t)
	default:
		b = w.ref(e)
	}
	if t == TierUnknown {
		t = b.copies.fastest()
	}
	if t >= tiers || b.copies[t] == 0 {
		return blockRef{}, false, false
	}
	b.copies = copies{}
	b.copies[t] = 1
	if listed {
		return b, true, true
	}
	e.copies[t]--
	if e.copies[t] > 0 {
		return blockRef{}, false, true
	}
	if e.empty() {
		// An empty entry ends the probing of other keys: put the copy back until remove has
		// closed the gap.
		e.copies[t] = 1
		w.entries.remove(key)
	}
	return b, false, true
}
