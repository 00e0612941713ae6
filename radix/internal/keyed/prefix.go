package keyed

import "unsafe"

// compareAtOnce is the number of hashes compared at once: 256 bytes, one call of the runtime's
// comparison.
const compareAtOnce = 32

// CommonPrefix returns the number of leading hashes that a and b share.
func CommonPrefix[H ~uint64](a, b []H) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	// Mostly all are equal. Where not, the search below finds them in the cache.
	if equal(a, b) {
		return n
	}
	i := 0
	for i+compareAtOnce <= n && equal(a[i:i+compareAtOnce], b[i:i+compareAtOnce]) {
		i += compareAtOnce
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// equal compares hashes as strings, which the runtime does with vectors.
func equal[H ~uint64](a, b []H) bool { return asString(a) == asString(b) }

// asString returns the memory of a.
func asString[H ~uint64](a []H) string {
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(a))), len(a)*8)
}
