package kvevent

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tokenList reads token ids, or pairs of them, into e.
func (b *Batch) tokenList(r *reader, e *Event) {
	n := r.array()
	start := len(b.tokens)
	e.Bigram = n > 0 && r.isArray()
	if e.Bigram {
		b.pairs(r, n)
	} else {
		b.tokens = slices.Grow(b.tokens, n)
		b.singles(r, n)
	}
	e.Tokens = b.tokens[start:len(b.tokens):len(b.tokens)]
}

// singlesAtOnce is how many ids are read one by one before the rest is tried in groups again.
const singlesAtOnce = 16

// singles reads n token ids, for which b.tokens has room.
func (b *Batch) singles(r *reader, n int) {
	for n > 0 && !r.bad {
		have := len(b.tokens)
		count, used := tokenGroups(b.tokens[have:have+n], r.b[r.p:])
		b.tokens = b.tokens[:have+count]
		r.p += used
		n -= count
		few := min(n, singlesAtOnce)
		b.oneByOne(r, few)
		n -= few
	}
}

// oneByOne reads n token ids. Those of two and four bytes, mixed at random in a large vocabulary, are read without a branch
// that depends on which it is: half of such branches would be mispredicted.
func (b *Batch) oneByOne(r *reader, n int) {
	buf, p := r.b, r.p
	out := b.tokens
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
			out = append(out, b.token(r))
			if r.bad {
				b.tokens = out
				return
			}
			p = r.p
		}
	}
	b.tokens, r.p = out, p
}

// pairs reads n bigrams [a, b] and flattens them.
func (b *Batch) pairs(r *reader, n int) {
	for i := 0; i < n && !r.bad; i++ {
		if r.array() != 2 {
			r.fail()
			return
		}
		b.tokens = append(b.tokens, b.token(r), b.token(r))
	}
}

// token reads one id of any width; see [Batch.WideTokens] for those outside uint32, and for what is no number.
func (b *Batch) token(r *reader) uint32 {
	if r.isName() {
		b.WideTokens++
		return crc32.Checksum(r.name(), castagnoli)
	}
	v, _ := r.word()
	if v > math.MaxUint32 {
		b.WideTokens++
		return uint32(v) ^ uint32(v>>32)
	}
	return uint32(v)
}
