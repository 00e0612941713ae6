package kvevent

import (
	"encoding/binary"
	"math"
	"slices"
)

// tokenList reads token ids, or pairs of them, into e.
func (b *Batch) tokenList(r *reader, e *Event) {
	n := r.array()
	start := len(b.tokens)
	e.Bigram = n > 0 && r.peek()&0xf0 == fixArr
	if e.Bigram {
		b.pairs(r, n)
	} else {
		b.tokens = slices.Grow(b.tokens, n)
		b.singles(r, n)
	}
	e.Tokens = b.tokens[start:len(b.tokens):len(b.tokens)]
}

// singles reads n token ids. Its first two cases cover vocabularies up to 65,536 and the third the rest; anything else
// is rare enough for the general reader.
func (b *Batch) singles(r *reader, n int) {
	buf, p := r.b, r.p
	out := b.tokens
	for ; n > 0; n-- {
		s := buf[p:]
		switch {
		case len(s) >= 3 && s[0] == uint16c:
			out = append(out, uint32(binary.BigEndian.Uint16(s[1:])))
			p += 3
		case len(s) >= 1 && s[0] < fixMap:
			out = append(out, uint32(s[0]))
			p++
		case len(s) >= 5 && s[0] == uint32c:
			out = append(out, binary.BigEndian.Uint32(s[1:]))
			p += 5
		default:
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

// token reads one id of any width; see [Batch.WideTokens] for those outside uint32.
func (b *Batch) token(r *reader) uint32 {
	v, _ := r.word()
	if v > math.MaxUint32 {
		b.WideTokens++
		return uint32(v) ^ uint32(v>>32)
	}
	return uint32(v)
}
