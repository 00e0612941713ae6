//go:build !purego

package kvevent

import "golang.org/x/sys/cpu"

// CPU support: Intel from Ice Lake and AMD from Zen 4 run tokens512, Intel from Haswell and AMD
// from Zen run tokens256.
var (
	hasTokens512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI && cpu.X86.HasBMI2
	hasTokens256 = cpu.X86.HasAVX2 && cpu.X86.HasBMI2
)

const (
	tokenGroup = 12 // ids at a time, or 16 where they fit: of five bytes, they are in
	tokenBytes = 64 // with four to spare

	// As many ids as can begin in 64 bytes, and those bytes with all of the last one.
	narrowGroup = 22
	narrowBytes = 72
)

// tokenGroups reads token ids from b to dst in groups, and returns their number and bytes. The
// caller reads other forms, and the end of either slice.
func tokenGroups(dst []uint32, b []byte) (count, used int) {
	switch {
	case hasTokens512 && len(dst) >= tokenGroup && len(b) >= tokenBytes:
		return tokens512(&dst[0], len(dst), &b[0], len(b))
	case !hasTokens512 && hasTokens256 && len(dst) >= narrowGroup && len(b) >= narrowBytes:
		return tokens256(&dst[0], len(dst), &b[0], len(b))
	}
	return 0, 0
}

// tokens512 reads ids of 1, 2, 3 and 5 bytes (fixint, uint8, uint16, uint32) from size bytes at
// b to dst, twelve or sixteen at a time. It stops at another type code, below 12 remaining ids
// of n, or below 64 bytes.
//
//go:noescape
func tokens512(dst *uint32, n int, b *byte, size int) (count, used int)

// tokens256 reads ids of 3 and 5 bytes (uint16, uint32) from size bytes at b, at least 72, to
// dst. It stops at another type code, below 22 remaining ids of n, or below 72 bytes.
//
//go:noescape
func tokens256(dst *uint32, n int, b *byte, size int) (count, used int)
