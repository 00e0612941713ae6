//go:build !purego

package radix

import "golang.org/x/sys/cpu"

func best() level {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ:
		return level512
	case cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ:
		return level128
	}
	return levelGo
}

// pieces is piecesGo by the CPU's best means.
func (k *keys) pieces(dst []Hash, tokens []uint32, size int, h uint64) {
	switch fastest {
	case level512:
		pieces512(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
	case level128:
		pieces128(&dst[0], &tokens[0], len(dst), size, &k[0], h, k[keyHigh])
	default:
		k.piecesGo(dst, tokens, size, h)
	}
}

//go:noescape
func pieces512(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)

//go:noescape
func pieces128(dst *Hash, tokens *uint32, n, size int, words *uint64, lo, hi uint64)
