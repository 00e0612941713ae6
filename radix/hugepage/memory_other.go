//go:build !linux

package hugepage

import "math"

// Memory returns 0: the memory is unknown.
func Memory() int64 { return 0 }

// ProcessMemory returns the largest number: the memory is unknown.
func ProcessMemory() int64 { return math.MaxInt64 }
