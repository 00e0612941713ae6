package radix

import "fmt"

// Store says that a worker holds a stretch of blocks. Its slices are not kept.
type Store struct {
	Worker Worker
	Domain Domain // where a chain without a parent starts; with a parent, the parent's domain counts
	Tier   Tier
	// Parent is the engine hash of the block before the first, when HasParent.
	Parent    uint64
	HasParent bool
	Engine    []uint64 // the engine's names of the blocks
	Blocks    []Hash   // their content; each follows the one before it
}

// Store enters blocks behind their parent. It applies all of s or, when it fails, nothing.
func (x *Index) Store(s Store) error {
	if len(s.Engine) != len(s.Blocks) {
		return fmt.Errorf("cannot store %d engine hashes for %d blocks: %w", len(s.Engine), len(s.Blocks), ErrMismatch)
	}
	if s.Tier >= tiers {
		return fmt.Errorf("cannot store in tier %d: %w", s.Tier, ErrUnknownTier)
	}
	o := x.worker(s.Worker)
	if o == nil {
		return fmt.Errorf("cannot store for worker %d: %w", s.Worker, ErrUnknownWorker)
	}
	// Before any lock is taken: to make room may evict, and the lock of who evicts is above all others.
	reserved, err := x.reserve(o, len(s.Blocks))
	if err != nil {
		x.lose(s.Worker, s.Engine)
		return fmt.Errorf("cannot store %d blocks for worker %d: %w", len(s.Blocks), s.Worker, err)
	}
	err = x.store(&s)
	if reserved > 0 {
		x.release(reserved)
	}
	return err
}

func (x *Index) store(s *Store) error {
	o := x.lock(s.Worker)
	if o == nil {
		return fmt.Errorf("cannot store for worker %d: %w", s.Worker, ErrUnknownWorker)
	}
	defer o.unlock()
	at, err := x.startLocked(o, s)
	if err != nil {
		return err
	}
	if !x.storeLocked(o, s, at) {
		return fmt.Errorf("cannot store for domain %d: %w", s.Domain, ErrUnknownDomain)
	}
	return nil
}

// spot is a point between blocks: offset blocks into run.
type spot struct {
	run    *run
	offset int
}

// startLocked finds where the first block goes.
func (x *Index) startLocked(o *worker, s *Store) (spot, error) {
	if s.HasParent {
		p := x.parentLocked(o, s.Parent, s.Domain)
		// What was evicted here, the engine still names as a parent. That is no gap in its events, and no reason to learn all anew.
		if p.hold == nil && o.partial.Load() {
			x.budget.parents.Add(1)
			x.loseLocked(o, s.Engine)
			return spot{}, fmt.Errorf("cannot store %d blocks for worker %d behind %#x: %w", len(s.Blocks), s.Worker, s.Parent, ErrBudget)
		}
		if p.hold == nil {
			x.count.unknownParents.Add(1)
			return spot{}, fmt.Errorf("cannot store %d blocks for worker %d behind %#x: %w", len(s.Blocks), s.Worker, s.Parent, ErrUnknownParent)
		}
		return spot{p.hold.run, int(p.offset) + 1}, nil
	}
	root := x.root(s.Domain)
	if root == nil {
		return spot{}, fmt.Errorf("cannot store for domain %d: %w", s.Domain, ErrUnknownDomain)
	}
	return spot{root.run, 0}, nil
}

// parentLocked returns the place of a parent; no hold if there is none.
func (x *Index) parentLocked(o *worker, key uint64, d Domain) place {
	e := o.table.find(key)
	switch {
	case e == nil:
		return x.heldLocked(o, key)
	case e.handle == aliased:
		if p := o.aliases[key].in(d); p != nil {
			return *p
		}
		return place{}
	}
	return place{hold: o.holds[e.handle], offset: e.offset}
}

// storeLocked walks down from at, run by run, and enters the blocks as it goes. At each step the worker holds a block of the run it
// comes from (or that is a root), so only the run it steps into can be dead: then it takes the step again. It fails if that is a root: the
// domain was freed, and nothing is entered yet.
func (x *Index) storeLocked(o *worker, s *Store, at spot) bool {
	from, engine, blocks := at, s.Engine, s.Blocks
	for len(blocks) > 0 {
		r := at.run
		r.mu.Lock()
		if r.dead.Load() {
			r.mu.Unlock()
			if r.parent == nil {
				return false
			}
			at = from
			continue
		}
		n, next := x.growLocked(at, blocks, engine)
		if n > 0 {
			h := o.holdLocked(r)
			x.enterLocked(o, h, engine[:n], at.offset, s.Tier)
			h.advance()
			r.setLeadLocked(h.slot, h.lead())
			o.weighLocked(h)
			x.weighLocked(r)
		}
		r.checkLocked()
		r.mu.Unlock()
		from = spot{r, at.offset + n}
		at = spot{next, 0}
		engine, blocks = engine[n:], blocks[n:]
	}
	x.settleLocked(o)
	return true
}

// growLocked returns how many of the blocks are in at's run from there on, extending it if they go beyond its end, and the run
// that takes the next block, made if need be.
func (x *Index) growLocked(at spot, blocks []Hash, engine []uint64) (n int, next *run) {
	r := at.run
	n = agree(r.hashes()[at.offset:], blocks)
	if n == len(blocks) {
		return n, nil
	}
	end := uint32(at.offset + n)
	// Of runs that go on here one at most begins with this block, and a dead one counts for nothing: put will replace it.
	if f := x.children.find(r.face.Load(), end, blocks[n]); f != nil && !f.run.dead.Load() {
		return n, f.run
	}
	if more := r.extendLocked(x, int(end), blocks[n:], engine[n:]); more > 0 {
		x.count.blocks.Add(int64(more))
		n += more
		end += uint32(more)
		if n == len(blocks) {
			return n, nil
		}
	}
	return n, x.linkLocked(r, end, blocks[n:], engine[n:])
}

// linkLocked hangs a new run below r, whose lock is held.
func (x *Index) linkLocked(r *run, offset uint32, blocks []Hash, engine []uint64) *run {
	blocks = blocks[:min(len(blocks), maxRun)]
	c := newRun(x.lastRun.Add(1), r.domain, r, offset, blocks, engine[:len(blocks)])
	x.places.enlist(c)
	r.kids++
	r.kidTop = max(r.kidTop, offset)
	x.count.runs.Add(1)
	x.count.blocks.Add(int64(len(blocks)))
	x.weighLocked(c)
	x.children.put(r.face.Load(), c.face.Load())
	return c
}

// heldLocked returns the place of an engine hash that the worker holds by name; no hold if it does not.
func (x *Index) heldLocked(o *worker, key uint64) place {
	if o.named == 0 {
		return place{}
	}
	r, offset := x.places.find(key)
	if r == nil {
		return place{}
	}
	h := o.holdOn(r)
	if h == nil {
		return place{}
	}
	if n := h.copies(offset); n != (copies{}) {
		return place{hold: h, offset: offset, n: n}
	}
	return place{}
}

// enterLocked counts a copy of each block from an offset of h's run on under its engine hash.
func (x *Index) enterLocked(o *worker, h *hold, engine []uint64, offset int, t Tier) {
	x.claimLocked(h.run)
	for len(engine) > 0 {
		// Mostly all are held by name, and none twice.
		n := o.plainLocked(h.run, offset, engine)
		if fresh, ok := h.enter(offset, n, t); ok && n > 0 {
			o.named += fresh
		} else {
			n = max(n, 1)
			for i, key := range engine[:n] {
				x.enterOneLocked(o, h, key, uint32(offset+i), t)
			}
		}
		engine, offset = engine[n:], offset+n
	}
}

// plainLocked returns how many of the names, from the first on, have their places at an offset of the run and behind, and are not in the
// worker's table.
func (o *worker) plainLocked(r *run, offset int, engine []uint64) int {
	listed := r.listed()[:r.claimed]
	if offset >= len(listed) {
		return 0
	}
	// A page at a time: where names differ all the way, this is done for each.
	n := agree(listed[offset:], engine[:min(len(engine), page)])
	if len(r.unnamed) > 0 {
		for i := range n {
			if bit(r.unnamed, uint32(offset+i)) {
				n = i
				break
			}
		}
	}
	return o.table.absent(engine[:n])
}

func (x *Index) enterOneLocked(o *worker, h *hold, key uint64, offset uint32, t Tier) {
	e := o.table.find(key)
	// By name a copy is one bit of the hold. Only what differs from its run's names, is held twice or elsewhere has an entry in the table.
	if e == nil && h.run.named(offset, key) {
		if fresh, ok := h.enter(int(offset), 1, t); ok {
			o.named += fresh
			return
		}
		e = o.becomeOddLocked(h, key, place{hold: h, offset: offset, n: h.copies(offset)})
	}
	if e == nil {
		if p := x.heldLocked(o, key); p.hold != nil {
			e = o.becomeOddLocked(h, key, p)
		}
	}
	if e == nil {
		n := copies{}
		n[t] = 1
		o.table.insert(entry{key: key, handle: h.handle, offset: offset, n: n})
		h.acquire(offset, t)
		return
	}
	if e.handle == aliased {
		o.enterAliasLocked(key, h, offset, t)
		return
	}
	if e.handle != h.handle || e.offset != offset {
		old := o.holds[e.handle]
		// Engines name blocks without the adapter, so one name is two blocks. In one domain the engine has moved the name: the old place goes.
		if old.run.domain != h.run.domain {
			o.becomeAliasLocked(e)
			o.enterAliasLocked(key, h, offset, t)
			return
		}
		c := change{hold: old, offset: e.offset}
		for t, n := range e.n {
			c.release[t] = n > 0
		}
		o.later = append(o.later, c) // the old run is another one, and one run is locked at a time
		*e = entry{key: key, handle: h.handle, offset: offset}
	}
	if e.n[t] == 0 {
		h.acquire(offset, t)
	}
	e.n.add(t)
}

// becomeOddLocked makes an entry of what the worker holds by name at p. The run of h is locked, that of p may be another.
func (o *worker) becomeOddLocked(h *hold, key uint64, p place) *entry {
	o.named--
	o.table.insert(entry{key: key, handle: p.hold.handle, offset: p.offset, n: p.n})
	if p.hold == h {
		h.estrange(p.offset)
	} else {
		o.later = append(o.later, change{hold: p.hold, offset: p.offset, odd: true})
	}
	return o.table.find(key)
}
