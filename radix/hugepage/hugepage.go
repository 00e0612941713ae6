package hugepage

import (
	"cmp"
	"context"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"
)

// Size is that of a huge page in bytes. Kernels with another size are left alone: it is 512 MiB on arm64 with pages of 64 KiB.
const Size = 2 << 20

// DefaultInterval is short against the minutes in which an index fills.
const DefaultInterval = 5 * time.Second

const (
	// Bytes made huge in one tick: the kernel takes 0.6 ms of CPU for each 2 MiB, so at DefaultInterval less than 1 % of a core.
	// A GiB takes 40 s.
	perTick = 64 * Size
	// Bytes made huge in one call. Each call waits, holding no lock, until the kernel has got every CPU to give back the pages that
	// it keeps at hand; between two huge pages of a call others get at the address space.
	perCall = 16 * Size
	// worthwhile is how much of a heap must be in use: at half of it no look-up was measurably faster, and what comes and goes with requests
	// would be collapsed again and again.
	worthwhile = 64 << 20
	// Ticks between two readings of HugeBytes: the kernel walks all of the process's page tables for it, milliseconds for a GiB.
	readEvery = 6
)

// Keeper keeps the heap in huge pages while it grows. The zero value is ready to Run.
type Keeper struct {
	huge atomic.Int64
	next uintptr // where the next tick goes on; belongs to Run
}

// HugeBytes returns how much of this process was in huge pages when Run last looked, half a minute ago at most with
// DefaultInterval. It asks nobody.
func (k *Keeper) HugeBytes() int64 { return k.huge.Load() }

// Run tends the heap at every interval until ctx ends. It must not run twice at a time.
func (k *Keeper) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		if inUse() >= worthwhile {
			k.tend()
		}
		if n%readEvery == 0 {
			k.huge.Store(Bytes())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tend is one tick. It goes on where the last one ended, so that ranges which the kernel refuses do not keep it from the others.
func (k *Keeper) tend() {
	small := smallRanges()
	at := firstFrom(small, k.next)
	var done uintptr
	for i := 0; i < len(small) && done < perTick; i++ {
		s := small[(at+i)%len(small)]
		collapse(s)
		done += s.end - s.start
		k.next = s.end
	}
}

// firstFrom returns the index of the first span that begins at next or after, of sorted ones.
func firstFrom(spans []span, next uintptr) int {
	i, _ := slices.BinarySearchFunc(spans, next, func(s span, next uintptr) int { return cmp.Compare(s.start, next) })
	return i
}

// inUse returns the bytes of the heap that the collector's last run has found in use.
func inUse() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// span is a range of addresses.
type span struct{ start, end uintptr }

// whole returns the huge pages that lie wholly in s.
func (s span) whole() span {
	w := span{(s.start + Size - 1) &^ (Size - 1), s.end &^ (Size - 1)}
	w.end = max(w.start, w.end)
	return w
}
