//go:build !purego

package radix

import "golang.org/x/sys/cpu"

func bestHashLevel() hashLevel {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ:
		return level512
	case cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ:
		return level128
	}
	return levelGo
}

// hashPieces equals hashPiecesGo, at the level of this CPU.
func hashPieces(k *hashKeys, dst []Hash, tokens []uint32, size int, h uint64) {
	switch hashWith {
	case level512:
		pieces512(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
	case level128:
		pieces128(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
	default:
		hashPiecesGo(k, dst, tokens, size, h)
	}
}

//go:noescape
func pieces512(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)

//go:noescape
func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
