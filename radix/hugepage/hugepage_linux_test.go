package hugepage

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallHeap returns n bytes of heap in small pages, which the collector counts.
func smallHeap(tb testing.TB, n int) []byte {
	tb.Helper()
	b := make([]byte, n)
	runtime.GC()
	start := uintptr(unsafe.Pointer(&b[0]))
	madvise(span{start, start + uintptr(n)}.whole(), unix.MADV_DONTNEED) // all of it is zero
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// requireCollapse skips the test unless the kernel reports small pages and makes them huge on
// request only.
func requireCollapse(tb testing.TB) {
	tb.Helper()
	if setting := Setting(); setting != "madvise" {
		tb.Skipf("transparent huge pages are %q here", setting)
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		tb.Skip(err)
	}
	defer pagemap.Close()
	if _, err := newPageScan().call(pagemap.Fd()); err != nil {
		tb.Skip("the kernel cannot say which pages are small (Linux 6.7 can): ", err)
	}
}

func TestRunCollapses(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	requireCollapse(t)
	const n = 96 << 20
	requireHugePages(t, n)
	b := smallHeap(t, n)
	if huge := Bytes(); huge > n/4 {
		t.Fatalf("%d bytes are huge before the first tick", huge)
	}
	var c Collapser
	c.collapse()
	if huge := Bytes(); huge > n/4+perTick {
		t.Errorf("one tick made %d bytes huge, want at most %d", huge, perTick)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx, 5*time.Millisecond) }()
	untilGiven(t, n, func() error {
		if huge := c.HugeBytes(); huge < n*3/4 {
			return fmt.Errorf("%d bytes are huge, want most of %d", huge, n)
		}
		return nil
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	for i := 0; i < n; i += 4096 {
		if b[i] != 1 || b[i+1] != 0 {
			t.Fatalf("byte %d has changed", i)
		}
	}
}

// TestRunLeavesSmallHeaps: the memory of requests is not collapsed each time.
func TestRunLeavesSmallHeaps(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	requireCollapse(t)
	b := smallHeap(t, minHeap*3/4)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var c Collapser
	if err := c.Run(ctx, time.Hour); err != nil || c.HugeBytes() != 0 {
		t.Errorf("Run = %v, with %d bytes huge, want none of so small a heap", err, c.HugeBytes())
	}
	runtime.KeepAlive(b)
}

// TestGivenBackStaysSo: the kernel does not refill pages that Go gives back from collapsed
// memory, as it does in advised memory.
func TestGivenBackStaysSo(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	requireCollapse(t)
	b := smallHeap(t, 96<<20)
	var c Collapser
	c.collapse()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) { // "VmFlags: rd wr mr mw me ac hg"
		if flags := strings.Fields(line); len(flags) > 0 && flags[0] == "VmFlags:" && slices.Contains(flags, "hg") {
			t.Errorf("memory is advised (%s): khugepaged may refill pages given back",
				strings.TrimSpace(line))
		}
	}
	runtime.KeepAlive(b)
}

func TestTickGoesOn(t *testing.T) {
	small := []span{{0, Size}, {4 * Size, 5 * Size}, {8 * Size, 9 * Size}}
	tests := []struct {
		next uintptr
		want int
	}{{0, 0}, {Size, 1}, {4 * Size, 1}, {5 * Size, 2}, {9 * Size, 3}}
	for _, test := range tests {
		if got := firstFrom(small, test.next); got != test.want {
			t.Errorf("firstFrom(%#x) = %d, want %d", test.next, got, test.want)
		}
	}
}

// BenchmarkTick measures a tick without small pages.
func BenchmarkTick(b *testing.B) {
	requireCollapse(b)
	heap := smallHeap(b, perTick)
	var c Collapser
	c.collapse()
	for b.Loop() {
		c.collapse()
	}
	runtime.KeepAlive(heap)
}
