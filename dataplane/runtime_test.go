package dataplane

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTuneRuntime: what the operator has set stays.
func TestTuneRuntime(t *testing.T) {
	limit := debug.SetMemoryLimit(math.MaxInt64)
	percent := debug.SetGCPercent(77)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	t.Setenv("GOGC", "77")
	t.Setenv("GOMEMLIMIT", "off")
	tuneRuntime()
	require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1))
	require.Equal(t, 77, debug.SetGCPercent(77))

	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	tuneRuntime()
	require.Equal(t, gcPercent, debug.SetGCPercent(gcPercent))
	first := debug.SetMemoryLimit(-1)
	require.Greater(t, first, defaultIndexBytes(), "the index has room in it")
	tuneRuntime()
	require.Equal(t, first, debug.SetMemoryLimit(-1), "a second router in the process changes nothing")
}
