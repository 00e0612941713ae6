package radix

import (
	"math/bits"
	"unsafe"
)

// What things take on the heap. All that grows with what is held is counted, with what lies idle in it, as it comes and goes.

// classed returns what the allocator gives for n bytes, within a few percent: eight sizes to an octave, 8 KiB apart when large.
func classed(n int64) int64 {
	if n <= 0 {
		return 0
	}
	grain := int64(8)
	if n > 32 {
		grain = max(16, min(int64(1)<<bits.Len64(uint64(n-1))/16, 8<<10))
	}
	return (n + grain - 1) / grain * grain
}

const (
	sliceBytes = 24
	blockBytes = int64(unsafe.Sizeof(Hash(0))) + 8 // and its name
	entryBytes = int64(unsafe.Sizeof(entry{}))
	aliasBytes = int64(unsafe.Sizeof(alias{})) + 4*int64(unsafe.Sizeof(place{})) + 2*mapSlot
	// mapSlot is a slot of a map from 8 bytes to 8 or 4.
	mapSlot = 17
)

var (
	runBytes    = classed(int64(unsafe.Sizeof(held{})))
	holdBytes   = classed(int64(unsafe.Sizeof(hold{})))
	oddBytes    = classed(int64(unsafe.Sizeof(odd{})))
	workerBytes = classed(int64(unsafe.Sizeof(worker{}))) + 8
)

// mapBytes returns what a map takes that has had so many keys: it never shrinks, and is filled to seven eighths.
func mapBytes(keys int) int64 {
	if keys == 0 {
		return 0
	}
	slots := int64(1) << bits.Len(uint(max(keys, 7)*8/7))
	return 48 + slots*mapSlot
}

// bytes returns what a run takes.
func (r *run) bytes() int64 {
	f := r.face.Load()
	n := runBytes + classed(int64(unsafe.Sizeof(face{}))+8+blockBytes*int64(f.size))
	if cap(r.holds) > len(r.ownHold) {
		n += classed(8 * int64(cap(r.holds)))
	}
	n += classed(4*int64(cap(r.spare))) + classed(8*int64(cap(r.unnamed)))
	if l := f.leads.Load(); l != nil {
		n += classed(int64(unsafe.Sizeof(leads{})) + 8*int64(l.size))
	}
	return n
}

// weighLocked counts what has changed in a run. A dead one counts nothing.
func (x *Index) weighLocked(r *run) {
	if now := uint32(r.bytes()); now != r.weight && !r.dead.Load() {
		x.count.bytes.Add(int64(now) - int64(r.weight))
		r.weight = now
	}
}

// bytes returns what a hold takes.
func (h *hold) bytes() int64 {
	n := holdBytes
	if h.born {
		n = 0
	}
	for t := range h.has {
		if c := cap(h.has[t]); t != int(TierGPU) || c > len(h.ownHas) {
			n += classed(8 * int64(c))
		}
	}
	if d := h.odd; d != nil {
		n += oddBytes + mapBytes(len(d.more))
		for t := range d.has {
			n += classed(8 * int64(cap(d.has[t])))
		}
	}
	return n
}

// weighLocked counts what has changed in a hold.
func (o *worker) weighLocked(h *hold) {
	if now := uint32(h.bytes()); now != h.weight {
		o.held += int64(now) - int64(h.weight)
		h.weight = now
	}
}

// size returns what a worker takes.
func (o *worker) size() int64 {
	if o.removed {
		return 0
	}
	return workerBytes + o.held + int64(len(o.table.slots))*entryBytes + mapBytes(o.mapped) + int64(len(o.aliases))*aliasBytes +
		classed(8*int64(cap(o.holds))) + classed(4*int64(cap(o.spare))) + int64(cap(o.later))*int64(unsafe.Sizeof(change{}))
}

// bytes returns what the child table takes beyond its stripes.
func (c *children) bytes() int64 { return c.slots.Load() * int64(unsafe.Sizeof(slot{})) }

// bytes returns what the table takes beyond its stripes.
func (p *places) bytes() int64 {
	return 8*p.slots.Load() + int64(len(*p.runs.Load()))*int64(unsafe.Sizeof(runHandles{}))
}

// growth returns how many bytes the table needs more, where memory is tight, for so many names more.
func (p *places) growth(names int64) int64 {
	slots := p.slots.Load()
	if p.used.Load()+names+batch <= slots*3/4 {
		return 0
	}
	return 8 * max(placeStripes*placeMin-slots, (p.live.Load()+names)*8/5-slots, 0)
}
