package radix

import "slices"

// sweep drops stale slots and gives each stripe its size. It reports false where a table of names cannot grow. Unless it is forced to, it
// does nothing where another sweep has just made room.
func (p *places) sweep(forced bool) bool {
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	if !forced && !p.crowded() && !p.idle() {
		return true
	}
	live := p.live.Load()
	tight := p.tight(8 * (live*9/4 - p.slots.Load()))
	p.mu.Lock()
	retired := p.retired
	p.retired = nil
	p.mu.Unlock()
	grown := true
	for i := 0; i < placeStripes; i += sweepAtOnce {
		p.filling.Lock()
		for g := range p.gates {
			p.gates[g].Lock()
		}
		for j := range sweepAtOnce {
			grown = p.sweepLocked(&p.stripes[i+j], live, tight) && grown
		}
		for g := range p.gates {
			p.gates[g].Unlock()
		}
		p.filling.Unlock()
	}
	p.packing = nil // as large as one of hundreds of stripes, and rarely needed
	p.mu.Lock()
	p.free = append(p.free, retired...)
	p.mu.Unlock()
	return grown
}

// sweepLocked sweeps a stripe of a table with so many names, and leaves more than half of it free, or a third where memory is tight.
func (p *places) sweepLocked(s *placeStripe, names int64, tight bool) bool {
	var live int
	if begin := slices.Index(s.slots, 0); begin >= 0 {
		live = p.packLocked(s.slots, begin)
	} else {
		live = p.repackLocked(s.slots)
	}
	size := max(live, int(names/placeStripes)) * 9 / 4
	if tight {
		size = size * 2 / 3
	}
	size = max(placeMin, size)
	grown := size <= tagMask+1
	size = min(size, tagMask+1)
	// A size that still fits is kept: to move costs twice as much as to pack.
	if have := len(s.slots); have < size-size/16 || have > size+size/4 {
		p.moveLocked(s, size)
	}
	return grown
}

// packLocked drops the stale slots of a stripe and returns how many others there are. It begins behind a free slot: from there on each slot
// belongs where it is or before it.
func (p *places) packLocked(slots []uint64, begin int) (live int) {
	if len(p.packing) < len(slots) {
		p.packing = make([]uint64, len(slots))
	}
	runs := *p.runs.Load()
	kept, used := keepLive(p.packing, runs, slots[begin+1:])
	more, usedMore := keepLive(p.packing[kept:], runs, slots[:begin])
	live = kept + more
	clear(slots)
	lay(slots, p.packing[:live], begin)
	p.used.Store(p.used.Load() + int64(live-used-usedMore))
	return live
}

// keepLive copies the slots that are not stale to dst, and returns how many these are, and how many were not free. Nobody can foresee
// which they are, so there is no branch for it.
func keepLive(dst []uint64, runs []*runHandles, slots []uint64) (live, used int) {
	for _, v := range slots {
		h := slotHandle(v) // of a free slot this is 0, which claims nothing
		given := runs[h/handleChunk].claimed[h%handleChunk].Load()
		dst[live] = v
		live += int(uint64(int64(slotOffset(v))-int64(given)) >> 63)
		used += int((v | -v) >> 63)
	}
	return live, used
}

// lay puts list, which has the order that it had in a table behind its free slot begin, into that table, which is empty now: each where it
// belongs or as soon behind as there is room. As nearly all of them come in the order of where they belong, that is behind the last one, with
// nothing free between.
func lay(slots, list []uint64, begin int) {
	n := len(slots)
	next, full := begin+1, begin+1 // from begin on, and further than the end: all is free from next on, and nothing in [full, next)
	for _, v := range list {
		at := int(first(slots, v))
		if at <= begin {
			at += n
		}
		if at < full { // there may be a gap before it, which it must not be behind
			if at = int(settle(slots, v)); at <= begin {
				at += n
			}
			next = max(next, at+1)
			continue
		}
		if at > next {
			full = at
		}
		at = max(at, next)
		next = at + 1
		if at >= n {
			at -= n
		}
		slots[at] = v
	}
}

// repackLocked is packLocked for a stripe without a free slot. Stale ones must go there, too: their handles will be used again.
func (p *places) repackLocked(slots []uint64) (live int) {
	old := slices.Clone(slots)
	clear(slots)
	for _, v := range old {
		if !p.stale(v) {
			settle(slots, v)
			live++
		}
	}
	p.used.Store(p.used.Load() + int64(live-len(old)))
	return live
}

// moveLocked gives a stripe another size.
func (p *places) moveLocked(s *placeStripe, size int) {
	old := s.slots
	s.slots = slices.Grow([]uint64(nil), size+bucket-1)
	s.slots = s.slots[:min(cap(s.slots), tagMask+1)&^(bucket-1)] // what the allocator gives anyway
	for _, v := range old {
		if v != 0 {
			settle(s.slots, v)
		}
	}
	p.slots.Add(int64(len(s.slots) - len(old)))
}

// settle puts v into the first free slot from its own on, and returns which that is.
func settle(slots []uint64, v uint64) uint64 {
	i := first(slots, v)
	for slots[i] != 0 {
		i = after(slots, i)
	}
	slots[i] = v
	return i
}

func (p *places) stale(slot uint64) bool { return stale(*p.runs.Load(), slot) }

func stale(runs []*runHandles, slot uint64) bool {
	h := slotHandle(slot)
	return slotOffset(slot) >= runs[h/handleChunk].claimed[h%handleChunk].Load()
}
