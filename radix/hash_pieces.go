package radix

import (
	"math/bits"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// hashLevel is an implementation of hashPieces. All give equal hashes.
type hashLevel int

const (
	levelGo  hashLevel = iota // any CPU, and with the build tag purego
	level128                  // one carry-less product at a time: PCLMULQDQ and AVX2, or PMULL
	level512                  // four at a time: AVX-512 and VPCLMULQDQ
)

// hashWith is the fastest level of this CPU. Only tests lower it.
var hashWith = bestHashLevel()

// groupTokens is the number of tokens in one carry-less product.
const groupTokens = 4

// hashPiecesGo is the reference of the assembly: dst[i] becomes the hash of the i-th size
// tokens, and h stands for all before them. len(tokens) is len(dst)*size; size is 1 to
// pieceMax.
func hashPiecesGo(k *hashKeys, dst []Hash, tokens []uint32, size int, h uint64) {
	for i := range dst {
		piece := tokens[i*size : (i+1)*size]
		hi, lo := k[keyHigh], h
		for at := 0; at < size; at += groupTokens {
			var t [groupTokens]uint32
			copy(t[:], piece[at:])
			w := k[at/2 : at/2+2]
			a, b := clmul(tokenPair(t[0], t[1])^w[0], tokenPair(t[2], t[3])^w[1])
			hi, lo = hi^a, lo^b
		}
		dst[i] = Hash(keyed.Fold(lo, hi))
	}
}

// tokenPair packs two tokens into a word, as a little-endian CPU loads them.
func tokenPair(a, b uint32) uint64 {
	return uint64(a) | uint64(b)<<32
}

// clmul multiplies without carries, as polynomials over one bit. The high half of the product
// is the low half of the product of the bit-reversed operands, reversed and shifted by one.
func clmul(x, y uint64) (hi, lo uint64) {
	return bits.Reverse64(clmulLow(bits.Reverse64(x), bits.Reverse64(y))) >> 1, clmulLow(x, y)
}

// clmulLow returns the low half of the product. Holes of three bits between the multiplied bits
// take the carries, as at most 15 ones meet at a position below the topmost, and the mask
// removes them (Pornin, BearSSL's ghash_ctmul64).
func clmulLow(x, y uint64) uint64 {
	const m0 = 0x1111111111111111
	const m1, m2, m3 = 2 * m0, 4 * m0, 8 * m0
	x0, x1, x2, x3 := x&m0, x&m1, x&m2, x&m3
	y0, y1, y2, y3 := y&m0, y&m1, y&m2, y&m3
	return (x0*y0^x1*y3^x2*y2^x3*y1)&m0 |
		(x0*y1^x1*y0^x2*y3^x3*y2)&m1 |
		(x0*y2^x1*y1^x2*y0^x3*y3)&m2 |
		(x0*y3^x1*y2^x2*y1^x3*y0)&m3
}
