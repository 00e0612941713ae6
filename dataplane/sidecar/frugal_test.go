package sidecar

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// A large KV tier holds far more than the rest of the sidecar, and the collector works no harder
// for it: a collection for each half of what is held, whatever that is.
func TestFrugalWithALargeHeap(t *testing.T) {
	const (
		held    = 128 << 20 // the index of a tier of 80 GiB with pages of 128 KiB
		garbage = 2 << 30
		piece   = 64 << 10
	)
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		t.Setenv(name, "")
	}
	percent, threads, limit := debug.SetGCPercent(100), runtime.GOMAXPROCS(0), debug.SetMemoryLimit(math.MaxInt64)
	defer func() {
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(threads)
		debug.SetMemoryLimit(limit)
	}()
	Frugal()
	index := make([]byte, held)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range garbage / piece {
		waste = make([]byte, piece)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(index)
	const most = 2 * garbage / (held / 2)
	if n := after.NumGC - before.NumGC; n > most {
		t.Errorf("%d collections for %d MiB of garbage beside %d MiB that stay, want %d at most", n, garbage>>20, held>>20, most)
	}
}

var waste []byte
