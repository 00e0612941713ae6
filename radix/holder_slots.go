package radix

import "sync/atomic"

// holderSlots are the holdings of a run by slot, parallel to the coverage words in the run's
// view. The run's lock guards them.
type holderSlots struct {
	slots  []*holding // nil where free
	free   []uint32
	inline [1]*holding // memory of slots for the usual run, which has one holder
	spare  *holding    // memory for the first holding; nil once it is used
}

func (s *holderSlots) count() int { return len(s.slots) - len(s.free) }

// add gives a new holding a slot.
func (s *holderSlots) add(v *runView, h *holding) {
	if n := len(s.free); n > 0 {
		h.slot = s.free[n-1]
		s.free = s.free[:n-1]
		s.slots[h.slot] = h
		if t := v.table.Load(); t != nil {
			t.reuses.Add(1)
		}
	} else {
		h.slot = uint32(len(s.slots))
		s.slots = append(s.slots, h)
		v.makeRoom(len(s.slots))
	}
	v.setCoverage(h.slot, packCoverage(h.worker, 0, 0))
}

// remove frees the slot of a holding.
func (s *holderSlots) remove(v *runView, h *holding) {
	v.setCoverage(h.slot, 0)
	s.slots[h.slot] = nil
	if live := s.count() - 1; live*4 <= len(s.slots) {
		s.compact(v, live)
	} else {
		s.free = append(s.free, h.slot)
	}
}

// compact moves the holdings to the first slots of a new coverage table, or of none. Look-ups
// on the old table finish there: its words were right until now and are never written again.
func (s *holderSlots) compact(v *runView, live int) {
	packed := s.inline[:0]
	var words []atomic.Uint64
	if live > 0 {
		packed, words = make([]*holding, 0, live), make([]atomic.Uint64, live)
	}
	if live == 0 {
		s.inline[0] = nil
	}
	for _, h := range s.slots {
		if h == nil {
			continue
		}
		h.slot = uint32(len(packed))
		words[h.slot].Store(h.coverage())
		packed = append(packed, h)
	}
	s.slots, s.free = packed, nil
	if live > len(v.single) {
		v.table.Store(growCoverageTable(words, live))
		return
	}
	word := uint64(0)
	if live > 0 {
		word = words[0].Load()
	}
	v.single[0].Store(word)
	v.table.Store(nil)
}

// byteSize returns the bytes outside of the run.
func (s *holderSlots) byteSize() int64 {
	n := sizeClass(4 * int64(cap(s.free)))
	if cap(s.slots) > len(s.inline) {
		n += sizeClass(8 * int64(cap(s.slots)))
	}
	return n
}
