//go:build !purego

package radix

import "golang.org/x/sys/cpu"

func bestHashLevel() hashLevel {
	if cpu.ARM64.HasPMULL {
		return level128
	}
	return levelGo
}

// hashPieces equals hashPiecesGo, at the level of this CPU.
func hashPieces(k *hashKeys, dst []Hash, tokens []uint32, size int, h uint64) {
	if hashWith == level128 {
		pieces128(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
		return
	}
	hashPiecesGo(k, dst, tokens, size, h)
}

//go:noescape
func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
