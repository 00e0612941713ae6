package kvevent

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tokenBuffer holds the token ids of a batch's events, one after the other.
type tokenBuffer struct {
	ids  []uint32
	wide int // See [Batch.WideTokens].
}

// read reads an event's token ids, or pairs of them.
func (t *tokenBuffer) read(r *reader, e *Event) {
	n := r.array()
	start := len(t.ids)
	e.Bigram = n > 0 && r.isArray()
	if e.Bigram {
		t.pairs(r, n)
	} else {
		t.ids = slices.Grow(t.ids, n)
		t.singles(r, n)
	}
	e.Tokens = t.ids[start:len(t.ids):len(t.ids)]
}

// singlesAtOnce is how many ids are read one by one before the rest is tried in groups again.
const singlesAtOnce = 16

// singles reads n token ids, for which t.ids has room.
func (t *tokenBuffer) singles(r *reader, n int) {
	for n > 0 && !r.bad {
		have := len(t.ids)
		count, used := tokenGroups(t.ids[have:have+n], r.b[r.p:])
		t.ids = t.ids[:have+count]
		r.p += used
		n -= count
		few := min(n, singlesAtOnce)
		t.oneByOne(r, few)
		n -= few
	}
}

// oneByOne reads n token ids. Those of two and four bytes, mixed at random in a large vocabulary, are read without a branch
// that depends on which it is: half of such branches would be mispredicted.
func (t *tokenBuffer) oneByOne(r *reader, n int) {
	buf, p := r.b, r.p
	out := t.ids
	for ; n > 0; n-- {
		s := buf[p:]
		switch {
		case len(s) >= 8 && s[0]-uint16c <= uint32c-uint16c:
			wide := uint(s[0] - uint16c)
			word := binary.BigEndian.Uint64(s) << 8
			out = append(out, uint32(word>>(48-16*wide&63)))
			p += int(3 + 2*wide)
		case len(s) >= 1 && s[0] < fixMap:
			out = append(out, uint32(s[0]))
			p++
		default: // Any other way, and the end of the payload.
			r.p = p
			out = append(out, t.token(r))
			if r.bad {
				t.ids = out
				return
			}
			p = r.p
		}
	}
	t.ids, r.p = out, p
}

// pairs reads n bigrams [a, b] and flattens them.
func (t *tokenBuffer) pairs(r *reader, n int) {
	for i := 0; i < n && !r.bad; i++ {
		if r.array() != 2 {
			r.fail()
			return
		}
		t.ids = append(t.ids, t.token(r), t.token(r))
	}
}

// token reads one id of any width; see [Batch.WideTokens] for those outside uint32, and for what is no number.
func (t *tokenBuffer) token(r *reader) uint32 {
	if r.isName() {
		t.wide++
		return crc32.Checksum(r.name(), castagnoli)
	}
	v, _ := r.word()
	if v > math.MaxUint32 {
		t.wide++
		return uint32(v) ^ uint32(v>>32)
	}
	return uint32(v)
}
