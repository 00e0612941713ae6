package keyed

import "math/bits"

// Fill draws secret words from a seed by splitmix64 (Steele, Lea and Flood, 2014), which
// repeats no word within a stream.
func Fill(words []uint64, seed uint64) {
	for i := range words {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		words[i] = z ^ z>>31
	}
}

// Fold multiplies to 128 bits and folds the halves together, the mixing step of wyhash.
func Fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
