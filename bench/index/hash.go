package index

import "math/bits"

// splitmix is the finalizer of splitmix64.
func splitmix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// promptHash is the block hash of the i-th block of an id.
func promptHash(id, i uint64) uint64 { return splitmix(id<<20 + i + 0x123456789abc) }

// decodeHash is the block hash of the i-th block of a request's answer, which is unique.
func decodeHash(req, i uint64) uint64 { return splitmix(0xdec0de<<32 + req<<20 + i) }

// chainHash continues a chained engine hash as Dynamo does: XXH3-64 of the hash before and the
// block's, with seed 1337. Other indexes compute the chain themselves.
//
// This is XXH3_len_9to16_64b of xxHash 0.8 for 16 bytes; the words are bytes 24 to 55 of its
// secret.
func chainHash(before, block uint64) uint64 {
	const (
		seed  = 1337
		flip1 = (0x1f67b3b7a4a44072 ^ 0x78e5c0cc4ee679cb) + seed
		flip2 = (0x2172ffcc7dd05a82 ^ 0x8e2443f7744608b8) - seed
	)
	lo, hi := before^flip1, block^flip2
	high, low := bits.Mul64(lo, hi)
	h := 16 + bits.ReverseBytes64(lo) + hi + (high ^ low)
	h = (h ^ h>>37) * 0x165667919e3779f9
	return h ^ h>>32
}
