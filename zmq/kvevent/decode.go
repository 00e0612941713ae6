package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	b.WideTokens = b.tokens.wide
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
	if max(cap(b.tokens.ids), cap(b.hashes.hashes), 4*cap(b.hashes.raws), 16*cap(b.Events)) > kept {
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
	fields, wide := b.UnknownFields, b.tokens.wide
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
	b.Events, b.UnknownFields, b.tokens.wide = b.Events[:events], fields, wide
	b.BadEvents++
	r.skip()
}

// add appends an empty event of kind k and returns it; the pointer is good until the next add.
func (b *Batch) add(k Kind) *Event {
	b.Events = append(b.Events, Event{Kind: k})
	return &b.Events[len(b.Events)-1]
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
