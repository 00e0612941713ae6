package router

import (
	"math"
	"runtime"
	"runtime/debug"
	facts "runtime/metrics"
	"testing"
	"time"

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
	require.GreaterOrEqual(t, debug.SetGCPercent(77), gcPercent, "a collection may have come since, which makes it more")
	first := debug.SetMemoryLimit(-1)
	require.Greater(t, first, defaultIndexBytes(), "the index has room in it")
	tuneRuntime()
	require.Equal(t, first, debug.SetMemoryLimit(-1), "a second router in the process changes nothing")
}

func TestGCPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: gcMost, 1 << 20: gcMost, gcHeadroom / 2: 200, gcHeadroom: 100, 2 * gcHeadroom: gcPercent, 1 << 40: gcPercent,
	} {
		require.Equal(t, want, gcPercentFor(live), "%d bytes in use", live)
	}
}

// TestHeadroom: a small heap gets room after a collection, and who sets the percentage by hand keeps it.
func TestHeadroom(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	percent := func() int {
		now := []facts.Sample{{Name: "/gc/gogc:percent"}}
		facts.Read(now)
		return int(now[0].Value.Uint64())
	}
	debug.SetGCPercent(1000) // more than any heap is given
	// Small objects that stay, allocated before and behind, must not keep the one that the collector is to find.
	var stay []*int64
	t.Cleanup(func() { runtime.KeepAlive(stay) })
	neighbours := func() {
		for range 64 {
			stay = append(stay, new(int64))
		}
	}
	neighbours()
	headroom{set: 1000}.watch()
	neighbours()
	require.Eventually(t, func() bool {
		runtime.GC()
		return percent() <= gcMost
	}, time.Minute, time.Millisecond)

	require.Eventually(t, func() bool { // it may just be about to set it once more
		debug.SetGCPercent(777)
		runtime.GC()
		runtime.GC()
		return percent() == 777
	}, time.Minute, time.Millisecond)
}
