package radix

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxRun bounds the blocks of a run: leads are 22 bits (see lead.go), and growing a run copies it.
const maxRun = 1 << 18

// run is a stretch of a chain. Children may hang at any offset, so it is never split: a chain that differs from it at offset o
// goes on in the child (run, o, hash).
type run struct {
	id     uint64
	parent *run   // nil for a domain's root
	offset uint32 // blocks of parent before this run
	handle uint32
	domain Domain
	first  Hash // of its blocks; unset in a root

	face  atomic.Pointer[face]   // replaced under mu
	names atomic.Pointer[uint64] // see listed; replaced under mu
	own   atomic.Pointer[hold]   // of the worker that came first, until it goes; written under mu

	mu      sync.Mutex
	sealed  bool        // was trimmed: an extension goes to a child
	claimed uint32      // blocks whose names were offered to places
	unnamed []uint64    // a bit for each of them that places did not take; mostly nil
	holds   []*hold     // by slot in leads, nil where free
	spare   []uint32    // free slots
	dead    atomic.Bool // unlinked or about to be: nothing may be added; set under mu
	kids    int32       // children that are linked, dead ones too
	kidTop  uint32      // no child hangs beyond this offset
	weight  uint32      // bytes that are counted for it
	dropped int         // blocks released since the last trim
	shade   *shade      // of a run that is predicted, nil in others

	ownHold [1]*hold // memory of holds: most have one, which so is in a line that is at hand
	room    *hold    // memory for the first hold; nil once that is there. Guarded by mu
}

// held is a run as it begins, in one piece of memory with the hold of the worker that stored it.
type held struct {
	run  run
	hold hold
}

// hashes returns the blocks published.
func (r *run) hashes() []Hash { return r.face.Load().hashes() }

func newRun(id uint64, d Domain, parent *run, offset uint32, blocks []Hash, names []uint64) *run {
	b := &held{run: run{id: id, domain: d, parent: parent, offset: offset}}
	r := &b.run
	if len(blocks) > 0 {
		r.first = blocks[0]
	}
	r.face.Store(newFace(r, blocks, len(blocks)))
	r.keepNames(names, r.face.Load())
	r.holds, r.room = r.ownHold[:0], &b.hold
	return r
}

// listed returns the engine hash that each block was first stored by, and room for more. They lie behind the face's hashes, and how many they
// are before them: a slice's header would be a piece of memory of its own, and one more cache line between a name's slot and the name.
func (r *run) listed() []uint64 {
	size := r.names.Load()
	return unsafe.Slice((*uint64)(unsafe.Add(unsafe.Pointer(size), unsafe.Sizeof(*size))), *size)
}

// keepNames copies the names to the room behind the blocks of a face, which is to be the run's.
func (r *run) keepNames(names []uint64, f *face) {
	size := (*uint64)(unsafe.Add(unsafe.Pointer(f), unsafe.Sizeof(face{})+uintptr(f.size)*unsafe.Sizeof(Hash(0))))
	*size = uint64(f.size)
	copy(unsafe.Slice((*uint64)(unsafe.Add(unsafe.Pointer(size), unsafe.Sizeof(*size))), *size), names)
	r.names.Store(size)
}

// extendLocked appends as many of rest as the run takes when offset is its end, and returns how many that was.
func (r *run) extendLocked(x *Index, offset int, rest []Hash, names []uint64) int {
	f := r.face.Load()
	have := int(f.n.Load())
	if r.parent == nil || r.sealed || offset != have {
		return 0
	}
	n := min(len(rest), maxRun-have)
	if n == 0 {
		return 0
	}
	g := f
	if size := have + n; size > int(f.size) {
		// What it has lies in memory twice for a moment; a child for the rest takes less.
		if x.tight(int64(16*have + 18*n)) {
			return 0
		}
		// An eighth more bounds both what lies idle and how often blocks that come one by one are copied.
		g = f.replaced(have, min(size+size/8, maxRun))
		r.keepNames(r.listed()[:have], g)
	}
	// Readers never look at what is behind the blocks published.
	copy(g.all()[have:], rest[:n])
	copy(r.listed()[have:], names[:n])
	g.n.Store(uint32(have + n))
	if g != f {
		r.face.Store(g)
		x.children.swap(f, g)
		x.weighLocked(r)
	}
	return n
}

// reapLocked marks the run dead and reports true when nobody needs it any more; else it gives back the tail that nobody
// needs, once that is worth the walk over the holds.
func (r *run) reapLocked(x *Index) bool {
	holders := len(r.holds) - len(r.spare)
	if r.kids == 0 {
		r.kidTop = 0
		r.face.Load().kids.Store(0)
	}
	if r.parent == nil || r.dead.Load() {
		return false
	}
	blocks := r.hashes()
	if holders == 0 && r.kids == 0 {
		// Before others see that it is dead: the run that takes its place claims the same names.
		x.disclaimLocked(r, 0)
		x.places.delist(r)
		r.dead.Store(true)
		x.count.runs.Add(-1)
		x.count.bytes.Add(-int64(r.weight))
		r.weight = 0
		x.count.blocks.Add(-int64(len(blocks)))
		return true
	}
	x.weighLocked(r)
	if r.dropped > max(len(blocks)/2, len(r.holds)) {
		r.trimLocked(x, blocks)
	}
	return false
}

// trimLocked cuts the blocks that neither a hold nor a child needs, if they are at least half.
func (r *run) trimLocked(x *Index, blocks []Hash) {
	r.dropped = 0
	need := int(r.kidTop)
	for _, h := range r.holds {
		if h != nil {
			need = max(need, h.top())
		}
	}
	if need*2 > len(blocks) {
		return
	}
	x.disclaimLocked(r, uint32(need))
	f := r.face.Load()
	g := f.replaced(need, need)
	r.keepNames(r.listed()[:need], g)
	r.face.Store(g)
	x.children.swap(f, g)
	r.sealed = true
	x.weighLocked(r)
	x.count.blocks.Add(int64(need - len(blocks)))
}
