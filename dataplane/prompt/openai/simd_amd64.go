//go:build !purego

package openai

import (
	"slices"

	"golang.org/x/sys/cpu"
)

// Which of the functions in assembly this CPU can run: Intel's from Skylake's servers and AMD's
// from Zen 4 on run all, those from Haswell and Zen on ids256. All that have BMI2 have LZCNT.
var (
	hasText512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasBMI1
	hasIDs256  = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
)

// scanBlocks is scanGroups for blocks of 64 bytes; it leaves the rest.
func scanBlocks(dst []uint32, b []byte, i int) ([]uint32, int) {
	for hasIDs256 && len(b)-i >= group+margin {
		if cap(dst)-len(dst) < groupIDs {
			// Room for ids of usual length: a long list allocates once.
			dst = slices.Grow(dst, max(groupIDs, (len(b)-i)/bytesPerID))
		}
		n, used := ids256(&dst[:cap(dst)][len(dst)], cap(dst)-len(dst), &b[i], len(b)-i)
		dst, i = dst[:len(dst)+n], i+used
		if cap(dst)-len(dst) >= groupIDs {
			break
		}
	}
	return dst, skipSpace(b, i)
}

// ids256 reads ids from n bytes at b, an element's first, to dst, while they have at most eight
// digits, with a comma and at most one space behind each. It stops behind a comma: in front of the
// first block of which no element can be read, and at the latest where fewer than 72 bytes or room
// for fewer than 32 ids are left.
//
//go:noescape
func ids256(dst *uint32, room int, b *byte, n int) (count, used int)

// skipBlocks passes a string's plain bytes, and where the CPU helps also its escapes, from i on, in
// blocks, and returns the place of the first thing that is neither, or where too little is left.
// The bits of all bytes passed, and perhaps of some behind, are in high.
func skipBlocks(b []byte, i int) (next int, high uint64, escaped bool) {
	if !hasText512 {
		i, high = skipWindows(b, i)
		return i, high, false
	}
	if len(b)-i < group {
		return i, 0, false
	}
	used, bytes, escapes := text512(&b[i], len(b)-i)
	if bytes != 0 {
		high = highBits
	}
	return i + used, high, escapes != 0
}

// text512 passes plain bytes and whole, valid escapes of a string in n bytes at b. It stops in
// front of a quote, a control character or an escape that is neither, and at the latest where fewer
// than 64 bytes are left. A bit of high is set if a byte that it saw is not ASCII, one of escapes
// if it passed any.
//
//go:noescape
func text512(b *byte, n int) (used int, high, escapes uint64)

func maxOf(ids []uint32) uint32 {
	whole := len(ids) &^ 7
	if !hasIDs256 || whole == 0 {
		return maxOfEach(ids)
	}
	return max(maxIDs256(&ids[0], whole), maxOfEach(ids[whole:]))
}

// maxIDs256 returns the largest of n ids, a multiple of eight: a tenth of the time of a loop, which
// would be a third of that of reading the ids.
//
//go:noescape
func maxIDs256(ids *uint32, n int) uint32
