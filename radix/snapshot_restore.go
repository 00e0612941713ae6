package radix

// loadedStretch is a stretch of a snapshot in the index under construction, mostly one run.
// Blocks that a run does not take go to the next. Two stretches share a run if content went and
// came again while the snapshot was taken.
type loadedStretch struct {
	blocks       int
	start        position
	end          position
	slices       []runSlice
	engineHashes []uint64 // nil if the runs list the same
}

// runSlice is n blocks of a run.
type runSlice struct {
	run       *run
	offset, n int
}

// position returns the point behind the first n blocks.
func (l *loadedStretch) position(n int) position {
	at := l.start
	for _, s := range l.slices {
		if n == 0 {
			break
		}
		k := min(n, s.n)
		at = position{s.run, s.offset + k}
		n -= k
	}
	return at
}

// each calls f for the parts of n blocks from an offset on, with their engine hashes.
func (l *loadedStretch) each(offset, n int, f func(r *run, at int, engineHashes []uint64)) {
	skip := offset
	for _, s := range l.slices {
		if skip >= s.n {
			skip -= s.n
			continue
		}
		k := min(n, s.n-skip)
		engineHashes := s.run.listed()[s.offset+skip:][:k]
		if l.engineHashes != nil {
			engineHashes = l.engineHashes[offset:][:k]
		}
		f(s.run, s.offset+skip, engineHashes)
		offset, n, skip = offset+k, n-k, 0
		if n == 0 {
			return
		}
	}
}

// append appends blocks to the stretch.
func (l *loadedStretch) append(t *tree, blocks []Hash, engineHashes []uint64) {
	for len(blocks) > 0 {
		n, next := t.growLocked(l.end, blocks, engineHashes)
		if n > 0 {
			r, at := l.end.run, l.end.offset
			if l.engineHashes == nil && commonPrefix(r.listed()[at:], engineHashes[:n]) < n {
				l.engineHashes = l.listed()
			}
			if l.engineHashes != nil {
				l.engineHashes = append(l.engineHashes, engineHashes[:n]...)
			}
			if last := len(l.slices) - 1; last >= 0 && l.slices[last].run == r {
				l.slices[last].n += n
			} else {
				l.slices = append(l.slices, runSlice{r, at, n})
			}
			l.blocks += n
			l.end.offset += n
		}
		blocks, engineHashes = blocks[n:], engineHashes[n:]
		if next != nil {
			l.end = position{next, 0}
		}
	}
}

// listed returns the engine hashes that the stretch's runs list; never nil.
func (l *loadedStretch) listed() []uint64 {
	all := make([]uint64, 0, l.blocks)
	l.each(0, l.blocks, func(_ *run, _ int, part []uint64) { all = append(all, part...) })
	return all
}

// hold makes a worker hold a copy of each of n blocks from an offset on.
func (l *loadedStretch) hold(s *storing, offset, n int) {
	l.each(offset, n, func(r *run, at int, engineHashes []uint64) {
		h := s.worker.holdings.onLocked(r, s.worker.id)
		s.addCopies(h, engineHashes, at)
		s.tree.publishLocked(s.worker, h)
		s.tree.accountLocked(r)
	})
}
