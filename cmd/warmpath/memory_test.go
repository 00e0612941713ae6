package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollectorSettings(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	tests := []struct {
		name                   string
		memory, bound, outside int64
		percent                int
		limit                  int64
	}{
		{"unknown memory", 0, gib, 0, 100, 0},
		{"router with the default bound", 100 * gib, 25 * gib, 0, 100, 90 * gib},
		{"router with a large index", 100 * gib, 60 * gib, 0, 50, 90 * gib},
		{"index of half the machine", 100 * gib, 50 * gib, 0, 80, 90 * gib},
		{"index without a bound", 100 * gib, 100 * gib, 0, 50, 90 * gib},
		{"sidecar without a tier", 100 * gib, 0, 0, 100, 90 * gib},
		{"sidecar with a tier of 64 GiB", 100 * gib, 102 * mib, 64 * gib, 100, 36 * gib * 9 / 10},
		{"tier that takes nearly all memory", 65 * gib, 102 * mib, 65 * gib, 100, 332 * mib},
		{"small container", 64 * mib, 16 * mib, 0, 100, 64 * mib * 9 / 10},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			percent, limit := collectorSettings(test.memory, test.bound, test.outside)
			require.Equal(t, test.percent, percent)
			require.InDelta(t, test.limit, limit, 100, "bytes")
		})
	}
}

// restoreCollector undoes a test's settings.
func restoreCollector(t *testing.T) {
	t.Helper()
	percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

func TestSetMemoryLimit(t *testing.T) {
	restoreCollector(t)
	t.Setenv("GOGC", "77")
	t.Setenv("GOMEMLIMIT", "off")
	setMemoryLimit(1<<20, 0)
	require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1), "the operator's")
	require.Equal(t, 77, debug.SetGCPercent(77), "the operator's")

	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	setMemoryLimit(1<<20, 0)
	require.Equal(t, maxGCPercent, debug.SetGCPercent(77))
	require.Less(t, debug.SetMemoryLimit(-1), int64(math.MaxInt64))
}

// TestSidecarCollectsSeldom has the index of a tier of 64 GiB on a machine that the tier nearly
// fills: the collector runs once for as much garbage as the index has bytes, not all the time.
func TestSidecarCollectsSeldom(t *testing.T) {
	restoreCollector(t)
	const (
		tier    = 64 << 30
		held    = tier / tierIndexShare
		garbage = 512 << 20
		piece   = 64 << 10
	)
	percent, limit := collectorSettings(65<<30, held, tier)
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(limit)
	index := make([]byte, held)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range garbage / piece {
		sink = make([]byte, piece)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(index)
	require.LessOrEqual(t, after.NumGC-before.NumGC, uint32(2*garbage/held))
}

var sink []byte
