package radix

// holdings are the holdings of one worker. The worker's lock guards them.
type holdings struct {
	list   []*holding        // by handle, nil where free
	free   []uint32          // free handles
	byRun  map[uint64]uint32 // run id to handle, but for first holdings; mostly nil
	mapped int               // the most keys that byRun has had
	bytes  int64             // of all holdings
}

// on returns the holding of worker w on r, or nil. The run's lock is not needed.
func (s *holdings) on(r *run, w Worker) *holding {
	// Most runs have one holder, so this saves a miss in the map. Another worker's holding may
	// go meanwhile, but never becomes this worker's.
	if h := r.firstHolding.Load(); h != nil && h.worker == w {
		return h
	}
	if len(s.byRun) == 0 {
		return nil
	}
	if i, ok := s.byRun[r.id]; ok {
		return s.list[i]
	}
	return nil
}

// onLocked returns the holding of worker w on r, made if missing. Both are locked.
func (s *holdings) onLocked(r *run, w Worker) *holding {
	if h := s.on(r, w); h != nil {
		return h
	}
	h := r.holders.spare
	if r.holders.spare = nil; h == nil {
		h = new(holding)
	} else {
		h.inRun = true
	}
	h.run, h.worker, h.listed[TierGPU] = r, w, h.inline[:0]
	if n := len(s.free); n > 0 {
		h.handle = s.free[n-1]
		s.free = s.free[:n-1]
		s.list[h.handle] = h
	} else {
		h.handle = uint32(len(s.list))
		s.list = append(s.list, h)
	}
	if r.firstHolding.Load() == nil {
		h.first = true
		r.firstHolding.Store(h)
	} else {
		if s.byRun == nil {
			s.byRun = make(map[uint64]uint32)
		}
		s.byRun[r.id] = h.handle
		s.mapped = max(s.mapped, len(s.byRun))
	}
	r.holders.add(r.view.Load(), h)
	return h
}

// remove forgets an empty holding. The run's lock is not needed.
func (s *holdings) remove(h *holding) {
	s.list[h.handle] = nil
	if !h.first {
		delete(s.byRun, h.run.id)
	}
	s.bytes -= int64(h.counted)
	h.counted = 0
	s.free = append(s.free, h.handle)
	if s.count() == 0 {
		*s = holdings{bytes: s.bytes}
	}
}

func (s *holdings) count() int { return len(s.list) - len(s.free) }

// account counts the change of a holding's bytes.
func (s *holdings) account(h *holding) {
	if now := uint32(h.byteSize()); now != h.counted {
		s.bytes += int64(now) - int64(h.counted)
		h.counted = now
	}
}

// byteSize returns the bytes of the holdings and of the tables that lead to them.
func (s *holdings) byteSize() int64 {
	handles := sizeClass(8*int64(cap(s.list))) + sizeClass(4*int64(cap(s.free)))
	return s.bytes + mapBytes(s.mapped) + handles
}
