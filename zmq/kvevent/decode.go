package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrMalformed is what every decoder of this package returns for bytes that are not what an engine sends.
var ErrMalformed = errors.New("kvevent: malformed message")

// Decode reads one message of any release into b and forgets what b held. After an error b holds no events.
// A batch that arrived before in the same sizes is decoded without allocating.
func (b *Batch) Decode(payload []byte) error {
	b.reset()
	r := reader{b: payload}
	n := r.array()
	if n < 2 {
		r.fail()
	}
	b.Time = r.float()
	b.events(&r)
	if n > 2 {
		rank, ok := r.optInt()
		b.Rank, b.HasRank = int(rank), ok
	}
	for i := 3; i < n && !r.bad; i++ {
		b.unknown(&r)
	}
	if r.bad || r.left() != 0 {
		b.reset()
		return fmt.Errorf("cannot decode batch of %d bytes: %w", len(payload), ErrMalformed)
	}
	return nil
}

func (b *Batch) reset() {
	*b = Batch{
		Events: b.Events[:0], hashes: b.hashes[:0], tokens: b.tokens[:0], raws: b.raws[:0],
	}
}

// unknown passes over one field that this package does not know.
func (b *Batch) unknown(r *reader) {
	r.skip()
	b.UnknownFields++
}

func (b *Batch) events(r *reader) {
	n := r.array()
	for i := 0; i < n && !r.bad; i++ {
		if c := r.peek(); c&0xf0 == fixMap || c == map16 || c == map32 {
			b.mapEvent(r)
		} else {
			b.arrayEvent(r)
		}
	}
}

// add appends an empty event of kind k and returns it; the pointer is good until the next add.
func (b *Batch) add(k Kind) *Event {
	b.Events = append(b.Events, Event{Kind: k})
	return &b.Events[len(b.Events)-1]
}

// hashList reads block hashes into e.
func (b *Batch) hashList(r *reader, e *Event) {
	n := r.array()
	start := len(b.hashes)
	b.hashes = slices.Grow(b.hashes, n)
	e.RawHashes = nil
	above := uint64(0)
	for i := 0; i < n && !r.bad; i++ {
		// Fast path: SGLang's hashes fill 64 bits, so nearly all come as int64 or uint64, half of them so and half so: which
		// of the two it is must not be a branch.
		if s := r.b[r.p:]; len(s) >= 9 && (s[0]^int64c)&^(int64c^uint64c) == 0 && wideCodes>>(s[0]&31)&1 == 1 {
			v := binary.BigEndian.Uint64(s[1:])
			above |= v & (uint64(s[0]&4) << 61) // uint64c has this bit, int64c has not
			b.hashes = append(b.hashes, v)
			r.p += 9
			continue
		}
		v, raw := e.hash(r)
		b.hashes = append(b.hashes, v)
		if raw != nil {
			b.rawHash(e, n, i, raw)
		}
	}
	e.Unsigned = e.Unsigned || above != 0
	e.Hashes = b.hashes[start:len(b.hashes):len(b.hashes)]
}

// wideCodes has the bits of int64c and uint64c by their low five bits.
const wideCodes = 1<<(int64c&31) | 1<<(uint64c&31)

// rawHash keeps the whole of the i-th of n hashes; the first one makes room for all.
func (b *Batch) rawHash(e *Event, n, i int, raw []byte) {
	if e.RawHashes == nil {
		start := len(b.raws)
		b.raws = slices.Grow(b.raws, n)[:start+n]
		e.RawHashes = b.raws[start : start+n : start+n]
		clear(e.RawHashes)
	}
	e.RawHashes[i] = raw
}

// hash reads one block hash: an integer, or a byte string of which it returns the whole as well.
func (e *Event) hash(r *reader) (v uint64, raw []byte) {
	if c := r.peek(); c < bin8 || c > bin32 {
		v, above := r.word()
		e.Unsigned = e.Unsigned || above
		return v, nil
	}
	raw = r.bin()
	if len(raw) < 8 {
		r.fail()
		return 0, nil
	}
	return binary.BigEndian.Uint64(raw), raw
}

func (e *Event) parent(r *reader) {
	e.Parent, e.RawParent, e.HasParent = 0, nil, false
	if !r.null() {
		e.Parent, e.RawParent = e.hash(r)
		e.HasParent = !r.bad
	}
}

func (e *Event) medium(r *reader) {
	e.Medium, e.MediumName = MediumNone, nil
	name := r.optStr()
	if name == nil {
		return
	}
	e.Medium = mediumOf(name)
	if e.Medium == MediumStorage || e.Medium == MediumOther {
		e.MediumName = name
	}
}

func (e *Event) loraID(r *reader) { e.LoRAID, e.HasLoRAID = r.optInt() }

func (e *Event) group(r *reader) {
	g, ok := r.optInt()
	e.Group, e.HasGroup = int(g), ok
}

func (e *Event) slidingWindow(r *reader) {
	w, _ := r.optInt()
	e.SlidingWindow = int(w)
}

func (e *Event) blockSize(r *reader) {
	n := r.int()
	if n < 0 {
		r.fail()
	}
	e.BlockSize = int(n)
}

// extraKeys keeps each block's keys as they are: their meaning is the engine's.
func (b *Batch) extraKeys(r *reader, e *Event) {
	e.ExtraKeys = nil
	if r.null() {
		return
	}
	n := r.array()
	start := len(b.raws)
	b.raws = slices.Grow(b.raws, n+1) // Room for one more than none: an empty list is not an absent one.
	for i := 0; i < n && !r.bad; i++ {
		var raw []byte
		if !r.null() {
			raw = r.skip()
		}
		b.raws = append(b.raws, raw)
	}
	e.ExtraKeys = b.raws[start:len(b.raws):len(b.raws)]
}
