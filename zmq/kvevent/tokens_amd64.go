//go:build !purego

package kvevent

import "golang.org/x/sys/cpu"

// What the CPU can run: Intel's from Ice Lake and AMD's from Zen 4 on tokens512, Intel's from Haswell and AMD's from Zen on tokens256.
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

// tokenGroups reads token ids from b to dst, as many as it can in groups, and returns how many they were and the bytes that they
// took. What has another form, and the end of either, is left to the caller.
func tokenGroups(dst []uint32, b []byte) (count, used int) {
	switch {
	case hasTokens512 && len(dst) >= tokenGroup && len(b) >= tokenBytes:
		return tokens512(&dst[0], len(dst), &b[0], len(b))
	case !hasTokens512 && hasTokens256 && len(dst) >= narrowGroup && len(b) >= narrowBytes:
		return tokens256(&dst[0], len(dst), &b[0], len(b))
	}
	return 0, 0
}

// tokens512 reads ids of 1, 2, 3 and 5 bytes (fixint, uint8, uint16, uint32) from size bytes at b to dst, twelve or sixteen at a time, until
// there is another code among the next ones, fewer than 12 of n are left to be read, or fewer than 64 bytes.
//
//go:noescape
func tokens512(dst *uint32, n int, b *byte, size int) (count, used int)

// tokens256 reads ids of 3 and 5 bytes (uint16, uint32) from size bytes at b, at least 72, to dst, until there is another code, fewer than
// 22 of n are left to be read, or fewer than 72 bytes.
//
//go:noescape
func tokens256(dst *uint32, n int, b *byte, size int) (count, used int)
