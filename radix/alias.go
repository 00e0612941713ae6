package radix

import "slices"

// alias is an engine hash of blocks in several domains. SGLang leaves the LoRA adapter out of
// its hash, so one prompt under two adapters is two blocks of one engine hash, and a removal
// does not tell which of them goes.
//
// So removals are counted apart, and a block is credited only while it has more copies than
// removals. Each block stays valid as a parent until the last copy is gone: the alias holds a
// pin on it.
type alias struct {
	blocks   []blockRef // at least two, of different domains
	removals [tiers]int
}

// credited reports whether a block surely has a copy in the tier.
func (a *alias) credited(b *blockRef, t Tier) bool { return int(b.copies[t]) > a.removals[t] }

// total returns the copies in a tier over all blocks.
func (a *alias) total(t Tier) int {
	n := -a.removals[t]
	for i := range a.blocks {
		n += int(a.blocks[i].copies[t])
	}
	return n
}

// in returns the block in a domain, or nil.
func (a *alias) in(d Domain) *blockRef {
	i := slices.IndexFunc(a.blocks, func(b blockRef) bool { return b.holding.run.domain == d })
	if i < 0 {
		return nil
	}
	return &a.blocks[i]
}

// resetEmptyTiers zeroes the tiers where removals may have taken all copies. No block is
// credited there, as none has more copies than all together.
func (a *alias) resetEmptyTiers() {
	for t := range a.removals {
		if a.total(Tier(t)) > 0 {
			continue
		}
		a.removals[t] = 0
		for i := range a.blocks {
			a.blocks[i].copies[t] = 0
		}
	}
}

// makeAliasLocked turns an entry that is about to get a block in a second domain into an alias.
func (w *worker) makeAliasLocked(e *entry) {
	b := w.ref(e)
	w.addAliasLocked(e.key, &alias{blocks: []blockRef{b}})
	*e = aliasEntry(e.key)
	w.deferred = append(w.deferred, deferredChange{holding: b.holding, offset: b.offset, pin: true})
}

func (w *worker) addAliasLocked(key uint64, a *alias) {
	if w.aliases == nil {
		w.aliases = make(map[uint64]*alias)
	}
	w.aliases[key] = a
}

// aliasEntry returns the entry of an alias. Its one copy keeps the slot from being free.
func aliasEntry(key uint64) entry { return entry{key: key, handle: aliased, copies: copies{1}} }

// addAliasCopyLocked counts a copy of an aliased engine hash at an offset of h's run, which is
// locked.
func (w *worker) addAliasCopyLocked(key uint64, h *holding, offset uint32, t Tier) {
	a := w.aliases[key]
	b := a.in(h.run.domain)
	switch {
	case b == nil:
		a.blocks = append(a.blocks, blockRef{holding: h, offset: offset})
		b = &a.blocks[len(a.blocks)-1]
		h.addEntry(offset, tierPin)
	case b.holding != h || b.offset != offset:
		w.deferAliasRemoval(a, b)
		*b = blockRef{holding: h, offset: offset}
		a.resetEmptyTiers()
		h.addEntry(offset, tierPin)
	}
	was := a.credited(b, t)
	b.copies.add(t)
	if !was && a.credited(b, t) {
		h.addEntry(offset, t)
	}
	w.shrinkAliasLocked(key, a)
}

// deferAliasRemoval removes all copies of a block.
func (w *worker) deferAliasRemoval(a *alias, b *blockRef) {
	c := deferredChange{holding: b.holding, offset: b.offset, unpin: true}
	for t := range Tier(tiers) {
		c.remove[t] = a.credited(b, t)
	}
	w.deferred = append(w.deferred, c)
}

// removeAliasCopyLocked removes one copy of an aliased engine hash, of whichever block.
func (w *worker) removeAliasCopyLocked(key uint64, t Tier) (ok bool) {
	a := w.aliases[key]
	if t == TierUnknown {
		t = TierGPU
		for t < tiers && a.total(t) == 0 {
			t++
		}
	}
	if t >= tiers || a.total(t) == 0 {
		return false
	}
	for i := range a.blocks {
		// The last copy that no removal can have hit.
		if b := &a.blocks[i]; int(b.copies[t]) == a.removals[t]+1 {
			c := deferredChange{holding: b.holding, offset: b.offset}
			c.remove[t] = true
			w.deferred = append(w.deferred, c)
		}
	}
	a.removals[t]++
	a.resetEmptyTiers()
	w.shrinkAliasLocked(key, a)
	return true
}

// dropAliasBlocksLocked forgets the blocks of an alias on evicted holdings. Earlier removals
// may have hit any block, so they go on counting against the others.
func (w *worker) dropAliasBlocksLocked(key uint64, a *alias, evicted []uint64) {
	rest := a.blocks[:0]
	for _, b := range a.blocks {
		if !bit(evicted, b.holding.handle) {
			rest = append(rest, b)
		}
	}
	if len(rest) == len(a.blocks) {
		return
	}
	clear(a.blocks[len(rest):])
	a.blocks = rest
	a.resetEmptyTiers()
	w.shrinkAliasLocked(key, a)
}

// shrinkAliasLocked drops blocks without copies, and the alias if fewer than two blocks are
// left.
func (w *worker) shrinkAliasLocked(key uint64, a *alias) {
	a.blocks = slices.DeleteFunc(a.blocks, func(b blockRef) bool {
		if b.copies != (copies{}) {
			return false
		}
		w.deferAliasRemoval(a, &b)
		return true
	})
	switch len(a.blocks) {
	case 0:
		w.entries.remove(key)
	case 1:
		b := a.blocks[0]
		for t := range b.copies {
			b.copies[t] -= uint16(a.removals[t]) // no more than there are, see resetEmptyTiers
		}
		*w.entries.find(key) = b.entry(key)
		unpin := deferredChange{holding: b.holding, offset: b.offset, unpin: true}
		w.deferred = append(w.deferred, unpin)
	default:
		return
	}
	delete(w.aliases, key)
}
