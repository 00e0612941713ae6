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
	if r.isMap() {
		b.mapBatch(&r)
	} else {
		b.arrayBatch(&r)
	}
	if r.bad || r.left() != 0 {
		b.reset()
		return fmt.Errorf("cannot decode batch of %d bytes: %w", len(payload), ErrMalformed)
	}
	return nil
}

// kept bounds what a Batch keeps of ids and of hashes, 256 and 512 KiB: a message of 65,536 tokens.
const kept = 64 << 10

// Trim gives back what an unusually large message took, so that who has read one does not hold four times its size until the next. Its Events
// are gone then.
func (b *Batch) Trim() {
	if max(cap(b.tokens), cap(b.hashes), 4*cap(b.raws), 16*cap(b.Events)) > kept {
		*b = Batch{}
	}
}

func (b *Batch) reset() {
	*b = Batch{
		Events: b.Events[:0], hashes: b.hashes[:0], tokens: b.tokens[:0], raws: b.raws[:0],
	}
}

// arrayBatch reads a batch as all engines send it: time, events, rank.
func (b *Batch) arrayBatch(r *reader) {
	n := r.array()
	if n < 2 {
		r.fail()
	}
	b.time(r)
	b.events(r)
	if n > 2 {
		b.rank(r)
	}
	for i := 3; i < n && !r.bad; i++ {
		b.unknown(r)
	}
}

// mapBatch reads a batch whose fields have names, as a publisher writes it that has not asked msgspec for arrays.
func (b *Batch) mapBatch(r *reader) {
	found := false
	for n := r.dict(); n > 0 && !r.bad; n-- {
		if !r.isName() {
			r.skip()
			b.unknown(r)
			continue
		}
		switch string(r.name()) {
		case "ts":
			b.time(r)
		case "events":
			if found { // Twice.
				r.fail()
				return
			}
			b.events(r)
			found = true
		case "attn_dp_rank", "data_parallel_rank":
			b.rank(r)
		default:
			b.unknown(r)
		}
	}
	if !found {
		r.fail()
	}
}

// time reads when the batch was made. Events are as good without.
func (b *Batch) time(r *reader) {
	if b.Time = 0; r.isNumber() {
		b.Time = r.float()
	} else {
		b.unknown(r)
	}
}

// rank reads whose events these are. Who listens knows by the socket.
func (b *Batch) rank(r *reader) {
	rank, ok := b.number(r)
	b.Rank, b.HasRank = int(rank), ok
}

// number reads an integer that decides nothing, or whatever is in its place.
func (b *Batch) number(r *reader) (v int64, ok bool) {
	switch {
	case r.null():
	case !r.isInt():
		b.unknown(r)
	default:
		word, above := r.word()
		if !above {
			return int64(word), !r.bad
		}
		b.UnknownFields++
	}
	return 0, false
}

// unknown passes over one field that this package does not know, or whose value says nothing to it.
func (b *Batch) unknown(r *reader) {
	r.skip()
	b.UnknownFields++
}

func (b *Batch) events(r *reader) {
	if r.null() {
		return
	}
	n := r.array()
	for i := 0; i < n && !r.bad; i++ {
		b.event(r)
	}
}

// event reads one event. One that makes no sense is left out, and takes no other with it.
func (b *Batch) event(r *reader) {
	start, events := r.p, len(b.Events)
	fields, wide := b.UnknownFields, b.WideTokens
	switch c := r.peek(); {
	case r.isMap():
		b.mapEvent(r)
	case c&0xf0 == fixArr, c == arr16, c == arr32:
		b.arrayEvent(r)
	case r.isName() && kindOf(r.name()) == Cleared: // An enumeration's variant without fields.
		b.add(Cleared)
	default:
		r.fail()
	}
	if !r.bad {
		return
	}
	r.p, r.bad = start, false
	b.Events, b.UnknownFields, b.WideTokens = b.Events[:events], fields, wide
	b.BadEvents++
	r.skip()
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
	for i := 0; i < n && !r.bad; i++ {
		// Fast path: SGLang's hashes fill 64 bits, so nearly all come as int64 or uint64.
		have := len(b.hashes)
		count, above := wideHashes(b.hashes[have:have+n-i], r.b[r.p:])
		b.hashes = b.hashes[:have+count]
		r.p += 9 * count
		e.Unsigned = e.Unsigned || above
		if i += count; i == n {
			break
		}
		v, raw := e.hash(r)
		b.hashes = append(b.hashes, v)
		if raw != nil {
			b.rawHash(e, n, i, raw)
		}
	}
	e.Hashes = b.hashes[start:len(b.hashes):len(b.hashes)]
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

// medium reads a tier. Blocks that are removed from one that has no name are gone from wherever they are.
func (b *Batch) medium(r *reader, e *Event) {
	e.Medium, e.MediumName = MediumNone, nil
	if e.Kind == Removed && !r.isName() {
		if !r.null() {
			b.unknown(r)
		}
		return
	}
	name := r.optStr()
	if len(name) == 0 {
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

func (b *Batch) slidingWindow(r *reader, e *Event) {
	w, _ := b.number(r)
	e.SlidingWindow = int(w)
}

// label reads a name that decides nothing: where it is none, the event stands without.
func (b *Batch) label(r *reader) []byte {
	if r.null() {
		return nil
	}
	if !r.isName() {
		b.unknown(r)
		return nil
	}
	return r.name()
}

// blockSize reads the size of the blocks, and reports whether it is there.
func (e *Event) blockSize(r *reader) bool {
	n, ok := r.optInt()
	if n < 0 {
		r.fail()
	}
	if ok {
		e.BlockSize = int(n)
	}
	return ok
}

// inferSize finds the size of blocks whose event does not say it.
func (e *Event) inferSize(r *reader) {
	tokens := len(e.Tokens)
	if e.Bigram {
		tokens /= 2
	}
	if len(e.Hashes) == 0 || tokens%len(e.Hashes) != 0 {
		r.fail()
		return
	}
	e.BlockSize = tokens / len(e.Hashes)
}

// extraKey reads what parts the blocks of a request from those of others with the same tokens.
func (e *Event) extraKey(r *reader) { e.ExtraKey = r.keys() }

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
		b.raws = append(b.raws, r.keys())
	}
	e.ExtraKeys = b.raws[start:len(b.raws):len(b.raws)]
}
