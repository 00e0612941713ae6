package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned by every decoder of this package for bytes that no engine sends.
var ErrMalformed = errors.New("kvevent: malformed message")

// Decode reads one message of any release into b, whose old content is lost. After an error b
// has no events. A batch of the same sizes as an earlier one is decoded without allocating.
func (b *Batch) Decode(payload []byte) error {
	b.reset()
	r := reader{b: payload}
	if r.isMap() {
		b.mapBatch(&r)
	} else {
		b.arrayBatch(&r)
	}
	b.WideTokens = b.tokens.wide
	if r.bad || r.left() != 0 {
		b.reset()
		return fmt.Errorf("cannot decode batch of %d bytes: %w", len(payload), ErrMalformed)
	}
	return nil
}

// maxRetained bounds the ids and hashes that a Batch retains, 256 and 512 KiB: a message of
// 65,536 tokens.
const maxRetained = 64 << 10

// Trim releases the memory of an unusually large message, so that its reader does not retain
// four times its size until the next one. Events are gone then.
func (b *Batch) Trim() {
	if max(cap(b.tokens.ids), cap(b.hashes.hashes), 4*cap(b.hashes.raws), 16*cap(b.Events)) > maxRetained {
		*b = Batch{}
	}
}

func (b *Batch) reset() {
	*b = Batch{
		Events: b.Events[:0],
		hashes: hashBuffer{hashes: b.hashes.hashes[:0], raws: b.hashes.raws[:0]},
		tokens: tokenBuffer{ids: b.tokens.ids[:0]},
	}
}

// arrayBatch reads a batch in the form of all engines: time, events, rank.
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

// mapBatch reads a batch with named fields, from a publisher whose msgspec structs are not
// array_like.
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

// time reads the time of the batch, which is optional.
func (b *Batch) time(r *reader) {
	if b.Time = 0; r.isNumber() {
		b.Time = r.float()
	} else {
		b.unknown(r)
	}
}

// rank reads the rank, which is optional: the socket identifies it too.
func (b *Batch) rank(r *reader) {
	rank, ok := b.number(r)
	b.Rank, b.HasRank = int(rank), ok
}

// number reads an optional integer; any other value counts as unknown.
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

// unknown skips a field that this package does not know, or a value of an unexpected type.
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

// event reads one event. An event that cannot be read is skipped alone.
func (b *Batch) event(r *reader) {
	start, events := r.p, len(b.Events)
	fields, wide := b.UnknownFields, b.tokens.wide
	switch {
	case r.isMap():
		b.mapEvent(r)
	case r.isArray():
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
	b.Events, b.UnknownFields, b.tokens.wide = b.Events[:events], fields, wide
	b.BadEvents++
	r.skip()
}

// add appends an event of kind k; the pointer is valid until the next add.
func (b *Batch) add(k Kind) *Event {
	b.Events = append(b.Events, Event{Kind: k})
	return &b.Events[len(b.Events)-1]
}

// hash reads one block hash: an integer, or a byte string, which it returns whole as well.
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

// medium reads a tier. A removal without a tier removes the blocks from all tiers.
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

// label reads an optional name; any other value counts as unknown.
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

// blockSize reads the size of the blocks, and reports whether it is present.
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

// inferSize derives the block size of an event that does not contain it from its lists.
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

// extraKey reads the key that separates a request's blocks from others with the same tokens.
func (e *Event) extraKey(r *reader) { e.ExtraKey = r.keys() }
