package radix

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxRun bounds the blocks of a run: coverage words have 22 bits for them, and growing a run
// copies it.
const maxRun = 1 << 18

// run is a stretch of consecutive blocks, an edge of the compressed tree. Children hang at any
// offset, so a run is never split: a chain that differs from it at offset o continues in the
// child (run, o, hash).
type run struct {
	id     uint64
	parent *run   // nil for a domain's root
	offset uint32 // blocks of parent before this run
	handle uint32 // in the run registry; 0: none was free
	domain Domain
	first  Hash // of its blocks; unset in a root

	view         atomic.Pointer[runView] // replaced under mu
	engineHashes atomic.Pointer[uint64]  // see listed; replaced under mu
	firstHolding atomic.Pointer[holding] // of the first worker, until it goes; written under mu

	mu             sync.Mutex
	sealed         bool     // was trimmed: extensions go to a child
	inserted       uint32   // blocks whose engine hashes were offered to the block table
	duplicates     []uint64 // a bit for each of them that the table has elsewhere; mostly nil
	holders        holderSlots
	dead           atomic.Bool    // unlinked or about to be: nothing may be added; set under mu
	children       int32          // linked children, dead ones included
	maxChildOffset uint32         // no child hangs behind it
	counted        uint32         // bytes in the accounts
	removed        int            // copies removed since the last trim
	predicted      *predictedPart // of a run in the prediction tree; nil in others
}

// runWithHolding is a new run in one piece of memory with the holding of the worker that stores
// it: most runs never have another.
type runWithHolding struct {
	run     run
	holding holding
}

func newRun(
	id uint64, d Domain, parent *run, offset uint32, blocks []Hash, engineHashes []uint64,
) *run {
	memory := &runWithHolding{run: run{id: id, domain: d, parent: parent, offset: offset}}
	r := &memory.run
	if len(blocks) > 0 {
		r.first = blocks[0]
	}
	v := newRunView(r, blocks, len(blocks))
	r.view.Store(v)
	r.setEngineHashes(engineHashes, v)
	r.holders.slots, r.holders.spare = r.holders.inline[:0], &memory.holding
	return r
}

// hashes returns the published blocks.
func (r *run) hashes() []Hash { return r.view.Load().hashes() }

// listed returns, for each block, the engine hash that it was first stored by, and room for more.
func (r *run) listed() []uint64 { return countedWords(r.engineHashes.Load()) }

// setEngineHashes copies engine hashes into a view that becomes the run's. It publishes them last:
// look-ups in the block table read them without the run's lock.
func (r *run) setEngineHashes(hashes []uint64, v *runView) {
	size := v.engineHashes()
	*size = uint64(v.size)
	copy(countedWords(size), hashes)
	r.engineHashes.Store(size)
}

// countedWords returns the words behind their number.
func countedWords(n *uint64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n))), *n)
}

// lists reports whether the block table has an engine hash at an offset of the run, which is
// locked.
func (r *run) lists(offset uint32, engineHash uint64) bool {
	return offset < r.inserted && r.listed()[offset] == engineHash && !bit(r.duplicates, offset)
}

// extendLocked appends the first of rest if offset is the run's end, and returns the number
// appended.
func (r *run) extendLocked(t *tree, offset int, rest []Hash, engineHashes []uint64) int {
	v := r.view.Load()
	have := int(v.n.Load())
	if r.parent == nil || r.sealed || offset != have {
		return 0
	}
	n := min(len(rest), maxRun-have)
	if n == 0 {
		return 0
	}
	w := v
	if size := have + n; size > int(v.size) {
		// The copy has the old blocks in memory twice for a moment; a child for the rest takes
		// less.
		if t.memoryLow(int64(16*have + 18*n)) {
			return 0
		}
		// An eighth more bounds both the unused memory and the copying for blocks that come one
		// by one.
		w = v.resized(have, min(size+size/8, maxRun))
		r.setEngineHashes(r.listed()[:have], w)
	}
	// Look-ups never read behind the published blocks.
	copy(w.all()[have:], rest[:n])
	copy(r.listed()[have:], engineHashes[:n])
	w.n.Store(uint32(have + n))
	if w != v {
		r.view.Store(w)
		t.children.replace(v, w)
		t.accountLocked(r)
	}
	return n
}

// freeLocked marks a run without holders and children as dead and reports true. A run that
// lives on gives back the tail that nobody needs, once the tail is worth a walk over the
// holders.
func (r *run) freeLocked(t *tree) bool {
	if r.children == 0 {
		r.maxChildOffset = 0
		r.view.Load().childBits.Store(0)
	}
	if r.parent == nil || r.dead.Load() {
		return false
	}
	blocks := r.hashes()
	if r.holders.count() == 0 && r.children == 0 {
		// Before others see that it is dead: the run that replaces it inserts the same engine
		// hashes.
		t.blocks.invalidateLocked(r, 0)
		t.blocks.runs.remove(r)
		r.dead.Store(true)
		t.count.runs.Add(-1)
		t.count.bytes.Add(-int64(r.counted))
		r.counted = 0
		t.count.blocks.Add(-int64(len(blocks)))
		return true
	}
	t.accountLocked(r)
	if r.removed > max(len(blocks)/2, len(r.holders.slots)) {
		r.trimLocked(t, blocks)
	}
	return false
}

// trimLocked cuts the blocks behind the last holder and the last child, if they are at least
// half.
func (r *run) trimLocked(t *tree, blocks []Hash) {
	r.removed = 0
	need := int(r.maxChildOffset)
	for _, h := range r.holders.slots {
		if h != nil {
			need = max(need, h.end())
		}
	}
	if need*2 > len(blocks) {
		return
	}
	t.blocks.invalidateLocked(r, uint32(need))
	v := r.view.Load()
	w := v.resized(need, need)
	r.setEngineHashes(r.listed()[:need], w)
	r.view.Store(w)
	t.children.replace(v, w)
	r.sealed = true
	t.accountLocked(r)
	t.count.blocks.Add(int64(need - len(blocks)))
}

// removeHolderLocked takes a holding out of the run.
func (r *run) removeHolderLocked(h *holding) {
	r.holders.remove(r.view.Load(), h)
	if h.first {
		r.firstHolding.Store(nil)
	}
}

// closeRoot marks a root without chains as dead and reports true.
func (r *run) closeRoot() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.children > 0 {
		return false
	}
	r.dead.Store(true)
	return true
}

// byteSize returns the bytes of a run without its holdings, but for the first.
func (r *run) byteSize() int64 {
	v := r.view.Load()
	n := runBytes + sizeClass(int64(unsafe.Sizeof(runView{}))+8+blockBytes*int64(v.size))
	n += r.holders.byteSize() + sizeClass(8*int64(cap(r.duplicates)))
	if t := v.table.Load(); t != nil {
		n += sizeClass(int64(unsafe.Sizeof(coverageTable{})) + 8*int64(t.size))
	}
	return n
}
