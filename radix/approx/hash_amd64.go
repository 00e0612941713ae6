//go:build !purego

package approx

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasUnits512 says that this CPU can run units512: Intel's from Ice Lake and AMD's from Zen 4 on.
var hasUnits512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ

// units hashes whole units of size bytes at p by the CPU's own means, which need not give the keys that others give: keys never leave
// the process. It returns false where there are none.
func (k *keys) units(dst []Key, p unsafe.Pointer, size int, start uint64) bool {
	if !hasUnits512 || size > 8*unitWords {
		return false
	}
	if len(dst) > 0 {
		units512(&dst[0], p, len(dst), size, &k[keyUnit], start, k[keyMix])
	}
	return true
}

//go:noescape
func units512(dst *Key, p unsafe.Pointer, n, size int, words *uint64, lo, hi uint64)
