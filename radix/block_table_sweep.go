package radix

import "slices"

// sweepAtOnce is the number of stripes swept while writers wait: 0.2 ms in a table of a million
// blocks.
const sweepAtOnce = 8

// tableSweep is one pass over all stripes of the block table: it drops stale slots and resizes
// stripes.
type tableSweep struct {
	table  *blockTable
	names  int64    // slots that are not stale, in the whole table
	low    bool     // memory is low: leave less room
	buffer []uint64 // for one stripe
}

// sweep drops stale slots. It returns false if a stripe has its largest size. Unless forced, it
// does nothing if another sweep has just made room.
func (t *blockTable) sweep(forced bool) bool {
	t.sweepMu.Lock()
	defer t.sweepMu.Unlock()
	if !forced && !t.crowded() && !t.sparse() {
		return true
	}
	live := t.live.Load()
	s := tableSweep{table: t, names: live, low: t.memoryLow(8 * (live*9/4 - t.slots.Load()))}
	retired := t.runs.takeRetired()
	grown := true
	for i := 0; i < blockStripes; i += sweepAtOnce {
		t.insertMu.Lock()
		for l := range t.locks {
			t.locks[l].Lock()
		}
		for j := range sweepAtOnce {
			grown = s.stripeLocked(&t.stripes[i+j]) && grown
		}
		for l := range t.locks {
			t.locks[l].Unlock()
		}
		t.insertMu.Unlock()
	}
	t.runs.reuse(retired)
	return grown
}

// stripeLocked sweeps a stripe and leaves more than half of it free, or a third where memory is
// low. It returns false if the stripe has its largest size.
func (s *tableSweep) stripeLocked(stripe *blockStripe) bool {
	var live int
	if begin := slices.Index(stripe.slots, 0); begin >= 0 {
		live = s.packLocked(stripe.slots, begin)
	} else {
		live = s.repackLocked(stripe.slots)
	}
	size := max(live, int(s.names/blockStripes)) * 9 / 4
	if s.low {
		size = size * 2 / 3
	}
	size = max(stripeSlotsMin, size)
	grown := size <= tagMask+1
	size = min(size, tagMask+1)
	// A size that still fits stays: moving costs twice as much as packing.
	if have := len(stripe.slots); have < size-size/16 || have > size+size/4 {
		s.resizeLocked(stripe, size)
	}
	return grown
}

// packLocked drops the stale slots of a stripe in place and returns the number of others. It
// begins behind a free slot: from there on each slot's home is at or before its index.
func (s *tableSweep) packLocked(slots []uint64, begin int) (live int) {
	if len(s.buffer) < len(slots) {
		s.buffer = make([]uint64, len(slots))
	}
	chunks := *s.table.runs.chunks.Load()
	n, used := copyLive(s.buffer, chunks, slots[begin+1:])
	more, usedMore := copyLive(s.buffer[n:], chunks, slots[:begin])
	live = n + more
	clear(slots)
	placeInOrder(slots, s.buffer[:live], begin)
	s.table.used.Store(s.table.used.Load() + int64(live-used-usedMore))
	return live
}

// copyLive copies the slots that are not stale to dst, and returns their number and that of
// slots which are not free. It has no branch on staleness, which the CPU could not predict.
func copyLive(dst []uint64, chunks []*runChunk, slots []uint64) (live, used int) {
	for _, v := range slots {
		h := slotHandle(v) // 0 for a free slot, and nothing is inserted for handle 0
		inserted := chunks[h/chunkRuns].inserted[h%chunkRuns].Load()
		dst[live] = v
		live += int(uint64(int64(slotOffset(v))-int64(inserted)) >> 63)
		used += int((v | -v) >> 63)
	}
	return live, used
}

// placeInOrder puts a list into an empty table, each value into its own slot or the first free
// one behind. The list has the order that it had in the table behind its free slot begin, so
// nearly each value goes behind the one before it without probing.
func placeInOrder(slots, list []uint64, begin int) {
	n := len(slots)
	// Indexes from begin on run past the end of the table. All is free from next on, nothing in
	// [full, next).
	next, full := begin+1, begin+1
	for _, v := range list {
		at := int(firstSlot(slots, v))
		if at <= begin {
			at += n
		}
		if at < full { // a gap before full may be this value's place
			if at = int(placeSlot(slots, v)); at <= begin {
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

// repackLocked is packLocked for a stripe without a free slot.
func (s *tableSweep) repackLocked(slots []uint64) (live int) {
	old := slices.Clone(slots)
	clear(slots)
	chunks := *s.table.runs.chunks.Load()
	for _, v := range old {
		if !staleSlot(chunks, v) {
			placeSlot(slots, v)
			live++
		}
	}
	s.table.used.Store(s.table.used.Load() + int64(live-len(old)))
	return live
}

// resizeLocked moves the slots of a stripe to a new slice.
func (s *tableSweep) resizeLocked(stripe *blockStripe, size int) {
	old := stripe.slots
	stripe.slots = slices.Grow([]uint64(nil), size+lineSlots-1)
	// All that the allocator gave, in whole cache lines.
	stripe.slots = stripe.slots[:min(cap(stripe.slots), tagMask+1)&^(lineSlots-1)]
	for _, v := range old {
		if v != 0 {
			placeSlot(stripe.slots, v)
		}
	}
	s.table.slots.Add(int64(len(stripe.slots) - len(old)))
}

func staleSlot(chunks []*runChunk, slot uint64) bool {
	h := slotHandle(slot)
	return slotOffset(slot) >= chunks[h/chunkRuns].inserted[h%chunkRuns].Load()
}
