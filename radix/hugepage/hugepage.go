package hugepage

import (
	"cmp"
	"context"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"
)

// Size is the size of a huge page in bytes. Kernels with another size are left alone: it is 512
// MiB on arm64 with pages of 64 KiB.
const Size = 2 << 20

// DefaultInterval is short against the minutes in which an index fills.
const DefaultInterval = 5 * time.Second

const (
	// perTick bounds the bytes collapsed in one tick: 2 MiB take the kernel 0.6 ms of CPU, so
	// at DefaultInterval less than 1 % of a core. A GiB takes 40 s.
	perTick = 64 * Size
	// perCall bounds the bytes collapsed in one call. Each call waits, without a lock, until
	// all CPUs have drained their page caches; between two huge pages of a call others get at
	// the address space.
	perCall = 16 * Size
	// minHeap is the heap in use from which ranges are collapsed: at half of it no look-up was
	// measurably faster, and the memory of requests would be collapsed again and again.
	minHeap = 64 << 20
	// readEvery is the number of ticks between two readings of HugeBytes: the kernel walks all
	// page tables of the process for one, milliseconds for a GiB.
	readEvery = 6
)

// Collapser collapses the small pages of a growing heap. The zero value is ready to Run.
type Collapser struct {
	huge atomic.Int64
	next uintptr // where the next tick continues; belongs to Run
}

// HugeBytes returns the bytes of this process in huge pages at Run's last reading, at most half
// a minute ago with DefaultInterval.
func (c *Collapser) HugeBytes() int64 { return c.huge.Load() }

// Run collapses at every interval until ctx ends. It must not run twice at a time.
func (c *Collapser) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		if liveHeap() >= minHeap {
			c.collapse()
		}
		if n%readEvery == 0 {
			c.huge.Store(Bytes())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// collapse is one tick. It continues where the last tick ended, so ranges that the kernel
// refuses do not block the others.
func (c *Collapser) collapse() {
	small := smallRanges()
	at := firstFrom(small, c.next)
	var done uintptr
	for i := 0; i < len(small) && done < perTick; i++ {
		s := small[(at+i)%len(small)]
		collapse(s)
		done += s.end - s.start
		c.next = s.end
	}
}

// firstFrom returns the index of the first of sorted spans that begins at or behind next.
func firstFrom(spans []span, next uintptr) int {
	i, _ := slices.BinarySearchFunc(spans, next, func(s span, next uintptr) int {
		return cmp.Compare(s.start, next)
	})
	return i
}

// liveHeap returns the bytes of the heap that the last collection found in use.
func liveHeap() uint64 {
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
