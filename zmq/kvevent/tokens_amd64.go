//go:build !purego

package kvevent

import "golang.org/x/sys/cpu"

// hasTokens512 says that the CPU can run tokens512: Intel's from Ice Lake and AMD's from Zen 4 on can.
var hasTokens512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI

const (
	tokenGroup = 12 // ids at a time: of five bytes, they are in
	tokenBytes = 64 // with four to spare
)

// tokenGroups reads token ids from b to dst, as many as it can in groups of twelve, and returns how many they were and the bytes
// that they took. What has another form, and the end of either, is left to the caller.
func tokenGroups(dst []uint32, b []byte) (count, used int) {
	if len(dst) < tokenGroup || len(b) < tokenBytes || !hasTokens512 {
		return 0, 0
	}
	return tokens512(&dst[0], len(dst), &b[0], len(b))
}

// tokens512 reads ids of 1, 2, 3 and 5 bytes (fixint, uint8, uint16, uint32) from size bytes at b to dst, twelve at a time, until
// there is another code among the next twelve, fewer than 12 of n are left to be read, or fewer than 64 bytes.
//
//go:noescape
func tokens512(dst *uint32, n int, b *byte, size int) (count, used int)
