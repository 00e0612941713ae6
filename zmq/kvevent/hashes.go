package kvevent

import (
	"encoding/binary"
	"slices"
)

// hashBuffer holds the block hashes of a batch's events, one after the other, and the byte strings
// that belong to blocks.
type hashBuffer struct {
	hashes []uint64
	raws   [][]byte // Hashes longer than 64 bits, and extra keys.
}

// read reads block hashes into e.
func (h *hashBuffer) read(r *reader, e *Event) {
	n := r.array()
	start := len(h.hashes)
	h.hashes = slices.Grow(h.hashes, n)
	e.RawHashes = nil
	for i := 0; i < n && !r.bad; i++ {
		// Fast path: SGLang's hashes fill 64 bits, so nearly all come as int64 or uint64.
		have := len(h.hashes)
		count, above := wideHashes(h.hashes[have:have+n-i], r.b[r.p:])
		h.hashes = h.hashes[:have+count]
		r.p += 9 * count
		e.Unsigned = e.Unsigned || above
		if i += count; i == n {
			break
		}
		v, raw := e.hash(r)
		h.hashes = append(h.hashes, v)
		if raw != nil {
			h.keepRaw(e, n, i, raw)
		}
	}
	e.Hashes = h.hashes[start:len(h.hashes):len(h.hashes)]
}

// wideHashes reads int64s and uint64s to dst, up to the first other value, and returns how many, and whether one was above int64.
// Half of them come so and half so: which of the two it is must not be a branch.
func wideHashes(dst []uint64, s []byte) (n int, above bool) {
	signs := uint64(0)
	for ; n+4 <= len(dst) && len(s) >= 4*9; n += 4 {
		four, out := (*[4 * 9]byte)(s), (*[4]uint64)(dst[n:])
		if other(four[0])|other(four[9])|other(four[18])|other(four[27]) != 0 {
			break
		}
		out[0], out[1] = binary.BigEndian.Uint64(four[1:]), binary.BigEndian.Uint64(four[10:])
		out[2], out[3] = binary.BigEndian.Uint64(four[19:]), binary.BigEndian.Uint64(four[28:])
		signs |= out[0]&highest(four[0]) | out[1]&highest(four[9]) | out[2]&highest(four[18]) | out[3]&highest(four[27])
		s = s[4*9:]
	}
	for ; n < len(dst) && len(s) >= 9 && other(s[0]) == 0; n++ {
		dst[n] = binary.BigEndian.Uint64(s[1:])
		signs |= dst[n] & highest(s[0])
		s = s[9:]
	}
	return n, signs != 0
}

// highest is the highest bit for uint64c, and none for int64c.
func highest(code byte) uint64 { return uint64(code&4) << 61 }

// other is 0 for int64c and uint64c alone.
func other(code byte) uint32 {
	x := uint32(code ^ int64c)
	return x * (x ^ int64c ^ uint64c)
}

// keepRaw stores the whole of the i-th of n hashes; the first one makes room for all.
func (h *hashBuffer) keepRaw(e *Event, n, i int, raw []byte) {
	if e.RawHashes == nil {
		start := len(h.raws)
		h.raws = slices.Grow(h.raws, n)[:start+n]
		e.RawHashes = h.raws[start : start+n : start+n]
		clear(e.RawHashes)
	}
	e.RawHashes[i] = raw
}

// extraKeys keeps each block's keys as they are: their meaning is the engine's.
func (h *hashBuffer) extraKeys(r *reader, e *Event) {
	e.ExtraKeys = nil
	if r.null() {
		return
	}
	n := r.array()
	start := len(h.raws)
	h.raws = slices.Grow(h.raws, n+1) // Room for one more than none: an empty list is not an absent one.
	for i := 0; i < n && !r.bad; i++ {
		h.raws = append(h.raws, r.keys())
	}
	e.ExtraKeys = h.raws[start:len(h.raws):len(h.raws)]
}
