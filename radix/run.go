package radix

import (
	"sync"
	"sync/atomic"
)

// maxRun bounds the blocks of a run: leads are 22 bits (see lead.go), and growing a run copies it.
const maxRun = 1 << 18

// run is a stretch of a chain. Children may hang at any offset, so it is never split: a chain that differs from it at offset o
// goes on in the child (run, o, hash).
type run struct {
	id     uint64
	parent *run   // nil for a domain's root
	offset uint32 // blocks of parent before this run
	domain Domain
	first  Hash // blocks[0]; unset in a root

	content atomic.Pointer[content] // replaced under mu
	leads   atomic.Pointer[leads]   // replaced under mu; nil until somebody holds a block
	dead    atomic.Bool             // unlinked or about to be: nothing may be added; set under mu
	handle  uint32                  // in places; 0 if there was none

	mu      sync.Mutex
	sealed  bool     // was trimmed: an extension goes to a child
	claimed uint32   // blocks whose names were offered to places
	unnamed []uint64 // a bit for each of them that places did not take; mostly nil
	holds   []*hold  // by slot in leads, nil where free
	spare   []uint32 // free slots
	kids    int      // children that are linked, dead ones too
	kidTop  uint32   // no child hangs beyond this offset
	dropped int      // blocks released since the last trim
}

// content is the blocks of a run, and the engine hash that each was first stored by. It only ever grows in place or is cut short, so an
// offset means one hash and one name for as long as the run lives.
type content struct {
	n      atomic.Uint32 // blocks published: what is behind them may be written to
	blocks []Hash
	names  []uint64
}

func newContent(blocks []Hash, names []uint64, size int) *content {
	c := &content{blocks: make([]Hash, size), names: make([]uint64, size)}
	copy(c.names, names)
	c.n.Store(uint32(copy(c.blocks, blocks)))
	return c
}

// hashes returns the blocks published.
func (r *run) hashes() []Hash {
	c := r.content.Load()
	return c.blocks[:c.n.Load()]
}

func newRun(id uint64, d Domain, parent *run, offset uint32, blocks []Hash, names []uint64) *run {
	r := &run{id: id, domain: d, parent: parent, offset: offset}
	if len(blocks) > 0 {
		r.first = blocks[0]
	}
	r.content.Store(newContent(blocks, names, len(blocks)))
	return r
}

// agree returns how many blocks of a and b are equal from the start on.
func agree[H ~uint64](a, b []H) int {
	n := min(len(a), len(b))
	i := 0
	// 32 hashes at a time compile to one memequal call over 256 bytes.
	for i+32 <= n && *(*[32]H)(a[i:]) == *(*[32]H)(b[i:]) {
		i += 32
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// extendLocked appends as many of rest as the run takes when offset is its end, and returns how many that was.
func (r *run) extendLocked(offset int, rest []Hash, names []uint64) int {
	c := r.content.Load()
	have := int(c.n.Load())
	if r.parent == nil || r.sealed || offset != have {
		return 0
	}
	n := min(len(rest), maxRun-have)
	if n == 0 {
		return 0
	}
	if size := have + n; size > len(c.blocks) {
		// An eighth more bounds both what lies idle and how often blocks that come one by one are copied.
		c = newContent(c.blocks[:have], c.names[:have], size+size/8+8)
	}
	// Readers never look at what is behind the blocks published.
	copy(c.blocks[have:], rest[:n])
	copy(c.names[have:], names[:n])
	c.n.Store(uint32(have + n))
	r.content.Store(c)
	return n
}

// addLocked gives the new hold a slot.
func (r *run) addLocked(h *hold) {
	if n := len(r.spare); n > 0 {
		h.slot = r.spare[n-1]
		r.spare = r.spare[:n-1]
		r.holds[h.slot] = h
	} else {
		h.slot = uint32(len(r.holds))
		r.holds = append(r.holds, h)
		if l := r.leads.Load(); l == nil || len(r.holds) > len(l.words) {
			r.leads.Store(l.grown(len(r.holds)))
		}
	}
	r.leads.Load().set(h.slot, packLead(h.worker, 0, 0))
}

// dropLocked takes the slot of a hold back.
func (r *run) dropLocked(h *hold) {
	r.leads.Load().set(h.slot, 0)
	r.holds[h.slot] = nil
	r.spare = append(r.spare, h.slot)
	if live := len(r.holds) - len(r.spare); live*4 <= len(r.holds) {
		r.packLocked(live)
	}
}

// packLocked moves the holds to the first slots of a new word table. Look-ups on the old table finish on it: its
// words are right until now and are never written again.
func (r *run) packLocked(live int) {
	r.spare = nil
	if live == 0 {
		r.holds = nil
		r.leads.Store(nil)
		return
	}
	l := (*leads)(nil).grown(live)
	packed := make([]*hold, 0, live)
	for _, h := range r.holds {
		if h == nil {
			continue
		}
		h.slot = uint32(len(packed))
		packed = append(packed, h)
		l.set(h.slot, h.lead())
	}
	r.holds = packed
	r.leads.Store(l)
}

// reapLocked marks the run dead and reports true when nobody needs it any more; else it gives back the tail that nobody
// needs, once that is worth the walk over the holds.
func (r *run) reapLocked(x *Index) bool {
	holders := len(r.holds) - len(r.spare)
	if r.kids == 0 {
		r.kidTop = 0
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
		x.count.blocks.Add(-int64(len(blocks)))
		return true
	}
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
	c := r.content.Load()
	r.content.Store(newContent(c.blocks[:need], c.names[:need], need))
	r.sealed = true
	x.count.blocks.Add(int64(need - len(blocks)))
}
