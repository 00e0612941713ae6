package radix

import (
	"fmt"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Store is a stretch of blocks that a worker has stored. The index keeps none of its slices.
type Store struct {
	Worker Worker
	Domain Domain // of a chain without a parent; else the parent's domain counts
	Tier   Tier
	// Parent is the engine hash of the block before the first, if HasParent.
	Parent    uint64
	HasParent bool
	Engine    []uint64 // engine hashes of the blocks
	Blocks    []Hash   // their block hashes; each block follows the one before it
}

// storeCall is one call of Index.Store. The worker is locked throughout, and one run at a time.
type storeCall struct {
	tree   *tree
	worker *worker
	tier   Tier
}

// start returns the position of the first block.
func (s *storeCall) start(st *Store) (position, error) {
	count := &s.tree.count
	if st.HasParent {
		p := s.parent(st.Parent, st.Domain)
		// The engine still names evicted blocks as parents. No event was lost, so no resync is
		// needed.
		if p.holding == nil && s.worker.partial.Load() {
			count.evictedParents.Add(1)
			dropAllLocked(s.tree, s.worker, st.Engine)
			return position{}, fmt.Errorf("cannot store %d blocks for worker %d behind %#x: %w",
				len(st.Blocks), st.Worker, st.Parent, ErrBudget)
		}
		if p.holding == nil {
			count.unknownParents.Add(1)
			return position{}, fmt.Errorf("cannot store %d blocks for worker %d behind %#x: %w",
				len(st.Blocks), st.Worker, st.Parent, ErrUnknownParent)
		}
		return position{p.holding.run, int(p.offset) + 1}, nil
	}
	root := s.tree.domains.root(st.Domain)
	if root == nil {
		return position{}, fmt.Errorf("cannot store for domain %d: %w", st.Domain, ErrUnknownDomain)
	}
	return position{root.run, 0}, nil
}

// parent returns the block of a parent; no holding if there is none.
func (s *storeCall) parent(engineHash uint64, d Domain) blockRef {
	e := s.worker.entries.find(engineHash)
	switch {
	case e == nil:
		return s.worker.findListed(&s.tree.blocks, engineHash)
	case e.handle == aliased:
		if b := s.worker.aliases[engineHash].in(d); b != nil {
			return *b
		}
		return blockRef{}
	}
	return s.worker.ref(e)
}

// addBlocks walks down from at, run by run, and adds the blocks. At each step the worker holds
// a block of the run that the step leaves, or that run is a root: so only the run that it
// enters can be dead, and then it takes the step again. It fails on a dead root: the domain was
// freed, and nothing is added yet.
func (s *storeCall) addBlocks(at position, blocks []Hash, engineHashes []uint64) bool {
	from := at
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
		n, next := s.tree.growLocked(at, blocks, engineHashes)
		if n > 0 {
			h := s.worker.holdings.onLocked(r, s.worker.id)
			s.addCopies(h, engineHashes[:n], at.offset)
			s.tree.publishLocked(s.worker, h)
			s.tree.accountLocked(r)
		}
		checkRunLocked(r)
		r.mu.Unlock()
		from = position{r, at.offset + n}
		at = position{next, 0}
		engineHashes, blocks = engineHashes[n:], blocks[n:]
	}
	s.tree.applyDeferredLocked(s.worker)
	return true
}

// addCopies adds a copy of each block from an offset of h's run on, which is locked.
func (s *storeCall) addCopies(h *holding, engineHashes []uint64, offset int) {
	s.tree.blocks.insertLocked(h.run)
	for len(engineHashes) > 0 {
		// Fast path: the run lists the engine hashes, and the worker has no copies yet.
		n := s.listedPrefix(h.run, offset, engineHashes)
		if fresh, ok := h.addListed(offset, n, s.tier); ok && n > 0 {
			s.worker.listed += fresh
		} else {
			n = max(n, 1)
			for i, key := range engineHashes[:n] {
				s.addCopy(h, key, uint32(offset+i))
			}
		}
		engineHashes, offset = engineHashes[n:], offset+n
	}
}

// maxListedPrefix bounds the comparison of engine hashes, which is repeated for each that
// differs.
const maxListedPrefix = 512

// listedPrefix returns the number of leading engine hashes that the run lists from an offset on
// and that are not in the worker's entry table.
func (s *storeCall) listedPrefix(r *run, offset int, engineHashes []uint64) int {
	listed := r.listed()[:r.inserted]
	if offset >= len(listed) {
		return 0
	}
	n := keyed.CommonPrefix(listed[offset:], engineHashes[:min(len(engineHashes), maxListedPrefix)])
	if len(r.duplicates) > 0 {
		for i := range n {
			if bit(r.duplicates, uint32(offset+i)) {
				n = i
				break
			}
		}
	}
	return s.worker.entries.absent(engineHashes[:n])
}

// addCopy adds a copy of one block of h's run.
func (s *storeCall) addCopy(h *holding, key uint64, offset uint32) {
	w, t := s.worker, s.tier
	e := w.entries.find(key)
	if e == nil && h.run.lists(offset, key) {
		if fresh, ok := h.addListed(int(offset), 1, t); ok {
			w.listed += fresh
			return
		}
		b := blockRef{holding: h, offset: offset, copies: h.listedCopies(offset)}
		e = s.moveToEntry(h, key, b)
	}
	if e == nil {
		if b := w.findListed(&s.tree.blocks, key); b.holding != nil {
			e = s.moveToEntry(h, key, b)
		}
	}
	if e == nil {
		n := copies{}
		n[t] = 1
		w.entries.insert(entry{key: key, handle: h.handle, offset: offset, copies: n})
		h.addEntry(offset, t)
		return
	}
	if e.handle == aliased {
		w.addAliasCopyLocked(key, h, offset, t)
		return
	}
	if e.handle != h.handle || e.offset != offset {
		old := w.holdings.list[e.handle]
		// The hash leaves the adapter out, so one hash may be two blocks. Within one domain the
		// engine has moved the hash, and the older block goes.
		if old.run.domain != h.run.domain {
			w.makeAliasLocked(e)
			w.addAliasCopyLocked(key, h, offset, t)
			return
		}
		c := deferredChange{holding: old, offset: e.offset}
		for t, n := range e.copies {
			c.remove[t] = n > 0
		}
		w.deferred = append(w.deferred, c)
		*e = entry{key: key, handle: h.handle, offset: offset}
	}
	if e.copies[t] == 0 {
		h.addEntry(offset, t)
	}
	e.copies.add(t)
}

// moveToEntry makes an entry of the listed copies at b. The run of h is locked, that of b may
// be another.
func (s *storeCall) moveToEntry(h *holding, key uint64, b blockRef) *entry {
	w := s.worker
	w.listed--
	w.entries.insert(b.entry(key))
	if b.holding == h {
		h.moveToEntries(b.offset)
	} else {
		move := deferredChange{holding: b.holding, offset: b.offset, moveToEntries: true}
		w.deferred = append(w.deferred, move)
	}
	return w.entries.find(key)
}
