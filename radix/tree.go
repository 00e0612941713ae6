package radix

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// tree is the radix tree of the blocks that workers hold, with the tables that lead into it.
type tree struct {
	children childTable
	blocks   blockTable
	domains  domainTable

	lastRun atomic.Uint64 // run ids; never reused
	count   counters
	limit   memoryLimit
}

// position is a point between blocks: offset blocks into run.
type position struct {
	run    *run
	offset int
}

func (t *tree) init(stripes int, keys *hashKeys, maxBytes int64) {
	t.children.init(stripes, keys[keyChild])
	t.blocks.init(keys[keyEngine])
	t.blocks.memoryLow = t.memoryLow
	t.domains.init(&t.lastRun)
	t.limit.init(maxBytes)
}

// bytes returns the bytes of the tree and the workers.
func (t *tree) bytes() int64 {
	tables := t.domains.bytes.Load() + t.children.byteSize() + t.blocks.byteSize()
	return t.count.bytes.Load() + tables
}

// memoryLow reports whether growing by that many bytes, for speed only, would exceed the
// budget.
func (t *tree) memoryLow(more int64) bool {
	return t.limit.max > 0 && t.bytes()+t.limit.reserved.Load()+more > t.limit.soft
}

// accountLocked counts the change of a run's bytes. A dead run counts nothing.
func (t *tree) accountLocked(r *run) {
	if now := uint32(r.byteSize()); now != r.counted && !r.dead.Load() {
		t.count.bytes.Add(int64(now) - int64(r.counted))
		r.counted = now
	}
}

// growLocked returns the number of blocks that at's run has from there on, extending it at its
// end, and the run that takes the next block, made if missing.
func (t *tree) growLocked(at position, blocks []Hash, engineHashes []uint64) (n int, next *run) {
	r := at.run
	n = keyed.CommonPrefix(r.hashes()[at.offset:], blocks)
	if n == len(blocks) {
		return n, nil
	}
	end := uint32(at.offset + n)
	// At most one child here begins with this block. A dead one does not count: insert replaces
	// it.
	if v := t.children.find(r.view.Load(), end, blocks[n]); v != nil && !v.run.dead.Load() {
		return n, v.run
	}
	if more := r.extendLocked(t, int(end), blocks[n:], engineHashes[n:]); more > 0 {
		t.count.blocks.Add(int64(more))
		n += more
		end += uint32(more)
		if n == len(blocks) {
			return n, nil
		}
	}
	return n, t.linkLocked(r, end, blocks[n:], engineHashes[n:])
}

// linkLocked hangs a new run below r, which is locked.
func (t *tree) linkLocked(r *run, offset uint32, blocks []Hash, engineHashes []uint64) *run {
	blocks = blocks[:min(len(blocks), maxRun)]
	c := newRun(t.lastRun.Add(1), r.domain, r, offset, blocks, engineHashes[:len(blocks)])
	t.blocks.runs.add(c)
	r.children++
	r.maxChildOffset = max(r.maxChildOffset, offset)
	t.count.runs.Add(1)
	t.count.blocks.Add(int64(len(blocks)))
	t.accountLocked(c)
	t.children.insert(r.view.Load(), c.view.Load())
	return c
}

// publishLocked shows look-ups the present blocks of a holding.
func (t *tree) publishLocked(w *worker, h *holding) {
	h.advanceCoverage()
	h.run.view.Load().setCoverage(h.slot, h.coverage())
	w.holdings.account(h)
}

// finishLocked publishes a holding after removals, or drops it if it is empty, and unlocks its
// run.
func (t *tree) finishLocked(w *worker, h *holding) {
	r := h.run
	if h.blocks == 0 {
		r.removeHolderLocked(h)
		w.holdings.remove(h)
	} else {
		t.publishLocked(w, h)
	}
	t.unlockRun(r)
}

// unlockRun frees r if nobody needs it and unlocks it, then does the same with its parent,
// which has lost a child, and so on up. Each run is unlocked before the next is locked: a dead
// run stays in the child table meanwhile, and a writer that finds it there replaces it.
func (t *tree) unlockRun(r *run) {
	for {
		dead := r.freeLocked(t)
		idle := r.parent == nil && r.children == 0
		checkRunLocked(r)
		r.mu.Unlock()
		if idle {
			t.domains.markIdle(r)
		}
		if !dead {
			return
		}
		t.children.remove(r)
		r = r.parent
		r.mu.Lock()
		r.children--
	}
}

// clearLocked drops all that a worker holds. Its lock is held throughout, a run's lock for that
// run only.
func (t *tree) clearLocked(w *worker) {
	for _, h := range w.forget() {
		if h == nil {
			continue
		}
		r := h.run
		r.mu.Lock()
		r.removed += int(h.blocks)
		r.removeHolderLocked(h)
		t.unlockRun(r)
	}
}

// applyDeferredLocked makes a worker's deferred changes in order. No run is locked.
func (t *tree) applyDeferredLocked(w *worker) {
	for _, c := range w.deferred {
		h := c.holding
		r := h.run
		r.mu.Lock()
		if c.moveToEntries {
			h.moveToEntries(c.offset)
		}
		if c.pin {
			h.addEntry(c.offset, tierPin)
		}
		for tier, yes := range c.remove {
			if yes {
				h.removeEntry(c.offset, Tier(tier))
			}
		}
		if c.unpin {
			h.removeEntry(c.offset, tierPin)
		}
		r.removed++
		t.finishLocked(w, h)
	}
	clear(w.deferred)
	w.deferred = w.deferred[:0]
	if cap(w.deferred) > maxDeferred {
		w.deferred = nil
	}
}
