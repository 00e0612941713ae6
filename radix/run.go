package radix

import (
	"slices"
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

	// blocks only ever grows in place or is cut short, so an offset means one hash for as long as the run lives.
	blocks atomic.Pointer[[]Hash] // replaced under mu
	leads  atomic.Pointer[leads]  // replaced under mu; nil until somebody holds a block
	dead   atomic.Bool            // unlinked or about to be: nothing may be added; set under mu

	mu      sync.Mutex
	sealed  bool     // was trimmed: an extension goes to a child
	holds   []*hold  // by slot in leads, nil where free
	spare   []uint32 // free slots
	kids    int      // children that are linked, dead ones too
	kidTop  uint32   // no child hangs beyond this offset
	dropped int      // blocks released since the last trim
}

func newRun(id uint64, d Domain, parent *run, offset uint32, blocks []Hash) *run {
	r := &run{id: id, domain: d, parent: parent, offset: offset}
	if len(blocks) > 0 {
		r.first = blocks[0]
	}
	r.blocks.Store(&blocks)
	return r
}

// agree returns how many blocks of a and b are equal from the start on.
func agree(a, b []Hash) int {
	n := min(len(a), len(b))
	i := 0
	// 32 hashes at a time compile to one memequal call over 256 bytes.
	for i+32 <= n && *(*[32]Hash)(a[i:]) == *(*[32]Hash)(b[i:]) {
		i += 32
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// extendLocked appends as many of rest as the run takes when offset is its end, and returns how many that was.
func (r *run) extendLocked(offset int, rest []Hash) int {
	have := *r.blocks.Load()
	if r.parent == nil || r.sealed || offset != len(have) {
		return 0
	}
	n := min(len(rest), maxRun-len(have))
	if n == 0 {
		return 0
	}
	// Readers of the shorter slice never look at what append writes behind its end.
	have = append(have, rest[:n]...)
	r.blocks.Store(&have)
	return n
}

// holdLocked returns worker w's hold on the run, or nil.
func (r *run) holdLocked(w Worker) *hold {
	l := r.leads.Load()
	if l == nil {
		return nil
	}
	for i := range r.holds {
		if leadWorker(l.words[i].Load()) == w && r.holds[i] != nil {
			return r.holds[i]
		}
	}
	return nil
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
func (r *run) reapLocked(c *counters) bool {
	holders := len(r.holds) - len(r.spare)
	if r.kids == 0 {
		r.kidTop = 0
	}
	if r.parent == nil || r.dead.Load() {
		return false
	}
	blocks := *r.blocks.Load()
	if holders == 0 && r.kids == 0 {
		r.dead.Store(true)
		c.runs.Add(-1)
		c.blocks.Add(-int64(len(blocks)))
		return true
	}
	if r.dropped > max(len(blocks)/2, len(r.holds)) {
		r.trimLocked(c, blocks)
	}
	return false
}

// trimLocked cuts the blocks that neither a hold nor a child needs, if they are at least half.
func (r *run) trimLocked(c *counters, blocks []Hash) {
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
	kept := slices.Clone(blocks[:need])
	r.blocks.Store(&kept)
	r.sealed = true
	c.blocks.Add(int64(need - len(blocks)))
}
