package radix

import (
	"math/bits"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// level is one of the implementations of pieces, which give equal hashes. The fastest that the CPU has is picked once.
type level int

const (
	levelGo  level = iota // any CPU, and with the build tag purego
	level128              // one carry-less product at a time: AVX2 and PCLMULQDQ, or PMULL on arm64
	level512              // four at a time: AVX-512 and VPCLMULQDQ
)

// fastest is used by all indexes. Only tests lower it.
var fastest = best()

// group is the number of tokens in one carry-less product.
const group = 4

// piecesGo is what the assembly must equal: dst[i] becomes the hash of the i-th size tokens, where h stands for what comes before.
// len(tokens) is len(dst)*size, size is 1 to pieceMax.
func (k *keys) piecesGo(dst []Hash, tokens []uint32, size int, h uint64) {
	for i := range dst {
		piece := tokens[i*size : (i+1)*size]
		hi, lo := k[keyHigh], h
		for at := 0; at < size; at += group {
			var t [group]uint32
			copy(t[:], piece[at:])
			w := k[at/2 : at/2+2]
			a, b := clmul(pair(t[0], t[1])^w[0], pair(t[2], t[3])^w[1])
			hi, lo = hi^a, lo^b
		}
		dst[i] = Hash(keyed.Fold(lo, hi))
	}
}

// pair packs two tokens into a word, as a little-endian CPU loads them.
func pair(a, b uint32) uint64 {
	return uint64(a) | uint64(b)<<32
}

// clmul multiplies without carries, as polynomials over one bit. The high half of the product is the low half of the product of the
// operands read backwards, also backwards, and one place further.
func clmul(x, y uint64) (hi, lo uint64) {
	return bits.Reverse64(clmulLow(bits.Reverse64(x), bits.Reverse64(y))) >> 1, clmulLow(x, y)
}

// clmulLow returns the low half. It leaves holes of three bits between the bits that it multiplies: at most 15 ones meet at a place
// below the topmost, so carries end in the holes and are masked away (Pornin, BearSSL's ghash_ctmul64).
func clmulLow(x, y uint64) uint64 {
	const m0, m1, m2, m3 = 0x1111111111111111, 0x2222222222222222, 0x4444444444444444, 0x8888888888888888
	x0, x1, x2, x3 := x&m0, x&m1, x&m2, x&m3
	y0, y1, y2, y3 := y&m0, y&m1, y&m2, y&m3
	return (x0*y0^x1*y3^x2*y2^x3*y1)&m0 |
		(x0*y1^x1*y0^x2*y3^x3*y2)&m1 |
		(x0*y2^x1*y1^x2*y0^x3*y3)&m2 |
		(x0*y3^x1*y2^x2*y1^x3*y0)&m3
}
