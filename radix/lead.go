package radix

import (
	"sync/atomic"
	"unsafe"
)

// A lead is what look-ups need of one hold, in one word so that it is never seen half-written: the worker, how many blocks from the start
// of the run it holds in any tier, and how many on the GPU.
//
//	63        44 43           22 21            0
//	[  worker  ] [  any tier   ] [     GPU     ]
const (
	leadBits   = 22 // 4 M blocks; runs end at maxRun
	leadMask   = 1<<leadBits - 1
	maxWorkers = 1 << (64 - 2*leadBits) // a million
)

func packLead(w Worker, anyTier, gpu uint32) uint64 {
	return uint64(w)<<(2*leadBits) | uint64(anyTier)<<leadBits | uint64(gpu)
}

func leadWorker(v uint64) Worker { return Worker(v >> (2 * leadBits)) }
func leadAny(v uint64) int32     { return int32(v >> leadBits & leadMask) }
func leadGPU(v uint64) int32     { return int32(v & leadMask) }

// leads are the words of the holds of a run that more than one worker holds, by slot, in one piece of memory behind this header. A slot
// without a hold is 0, as is one of worker 0 that leads nowhere: neither counts. It is written under the run's lock.
type leads struct {
	used atomic.Uint32 // words beyond were never set; saves look-ups the walk over the spare capacity
	adds atomic.Uint32 // holds that took the slot of another: a look-up meanwhile may meet a worker in its old and its new slot
	size uint32
	_    uint32
}

func newLeads(size int) *leads {
	const header = unsafe.Sizeof(leads{}) / 8
	memory := make([]uint64, int(header)+size)
	l := (*leads)(unsafe.Pointer(unsafe.SliceData(memory)))
	l.size = uint32(size)
	return l
}

// words returns the words that were ever set.
func (l *leads) words() []atomic.Uint64 { return l.all()[:l.used.Load()] }

func (l *leads) all() []atomic.Uint64 {
	return unsafe.Slice((*atomic.Uint64)(unsafe.Add(unsafe.Pointer(l), unsafe.Sizeof(leads{}))), l.size)
}

// set publishes the word of a slot.
func (l *leads) set(slot uint32, v uint64) {
	l.all()[slot].Store(v)
	if slot >= l.used.Load() {
		l.used.Store(slot + 1)
	}
}

// leadsOf returns words with room for at least n of them. Doubling keeps the copying linear while workers come.
func leadsOf(words []atomic.Uint64, n int) *leads {
	size := 2
	for size < n {
		size *= 2
	}
	l := newLeads(size)
	for i := range words {
		l.all()[i].Store(words[i].Load())
	}
	l.used.Store(uint32(len(words)))
	return l
}

// setLeadLocked publishes the word of a slot.
func (r *run) setLeadLocked(slot uint32, v uint64) {
	f := r.face.Load()
	if l := f.leads.Load(); l != nil {
		l.set(slot, v)
		return
	}
	f.solo[slot].Store(v)
}

func (r *run) leadLocked(slot int) uint64 {
	words, _ := r.face.Load().words()
	return words[slot].Load()
}

// addLocked gives the new hold a slot.
func (r *run) addLocked(h *hold) {
	f := r.face.Load()
	if n := len(r.spare); n > 0 {
		h.slot = r.spare[n-1]
		r.spare = r.spare[:n-1]
		r.holds[h.slot] = h
		if l := f.leads.Load(); l != nil {
			l.adds.Add(1)
		}
	} else {
		h.slot = uint32(len(r.holds))
		r.holds = append(r.holds, h)
		l := f.leads.Load()
		if l == nil && len(r.holds) > len(f.solo) || l != nil && len(r.holds) > int(l.size) {
			words, _ := f.words()
			f.leads.Store(leadsOf(words, len(r.holds)))
		}
	}
	r.setLeadLocked(h.slot, packLead(h.worker, 0, 0))
}

// dropLocked takes the slot of a hold back.
func (r *run) dropLocked(h *hold) {
	r.setLeadLocked(h.slot, 0)
	r.holds[h.slot] = nil
	if h.own {
		r.own.Store(nil)
	}
	if live := len(r.holds) - len(r.spare) - 1; live*4 <= len(r.holds) {
		r.packLocked(live)
	} else {
		r.spare = append(r.spare, h.slot)
	}
}

// packLocked moves the holds to the first slots of a new word table, or of none. Look-ups on the old table finish on it: its
// words are right until now and are never written again.
func (r *run) packLocked(live int) {
	packed := r.ownHold[:0]
	var words []atomic.Uint64
	if live > 0 {
		packed, words = make([]*hold, 0, live), make([]atomic.Uint64, live)
	}
	if live == 0 {
		r.ownHold[0] = nil
	}
	for _, h := range r.holds {
		if h == nil {
			continue
		}
		h.slot = uint32(len(packed))
		words[h.slot].Store(h.lead())
		packed = append(packed, h)
	}
	r.holds, r.spare = packed, nil
	f := r.face.Load()
	if live > len(f.solo) {
		f.leads.Store(leadsOf(words, live))
		return
	}
	v := uint64(0)
	if live > 0 {
		v = words[0].Load()
	}
	f.solo[0].Store(v)
	f.leads.Store(nil)
}
