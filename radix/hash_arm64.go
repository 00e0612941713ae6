//go:build !purego

package radix

import "golang.org/x/sys/cpu"

func best() level {
	if cpu.ARM64.HasPMULL {
		return level128
	}
	return levelGo
}

// pieces is piecesGo by the CPU's best means.
func (k *keys) pieces(dst []Hash, tokens []uint32, size int, h uint64) {
	if fastest == level128 {
		pieces128(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
		return
	}
	k.piecesGo(dst, tokens, size, h)
}

//go:noescape
func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
