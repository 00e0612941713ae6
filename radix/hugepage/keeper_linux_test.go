package hugepage

import (
	"context"
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

// smallHeap returns n bytes of heap, which the collector knows, that are in memory in small pages.
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

// collapses skips the test where the kernel cannot say which pages are small, or makes them huge only when or before it is asked.
func collapses(tb testing.TB) {
	tb.Helper()
	if setting := Setting(); setting != "madvise" {
		tb.Skipf("transparent huge pages are %q here", setting)
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		tb.Skip(err)
	}
	defer pagemap.Close()
	if _, err := newQuery().call(pagemap.Fd()); err != nil {
		tb.Skip("the kernel cannot say which pages are small (Linux 6.7 can): ", err)
	}
}

func TestKeeperCollapses(t *testing.T) {
	if !alone(t) {
		return
	}
	collapses(t)
	const n = 96 << 20
	plenty(t, n)
	b := smallHeap(t, n)
	if huge := Bytes(); huge > n/4 {
		t.Fatalf("%d bytes are huge before anyone has asked", huge)
	}
	var k Keeper
	k.tend()
	if huge := Bytes(); huge > n/4+perTick {
		t.Errorf("one tick made %d bytes huge, want at most %d", huge, perTick)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx, 5*time.Millisecond) }()
	for deadline := time.Now().Add(3 * time.Minute); k.HugeBytes() < n*3/4; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are huge, want most of %d", k.HugeBytes(), n)
		}
	}
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

// TestKeeperLeavesSmallHeaps: what comes and goes with requests is not collapsed each time.
func TestKeeperLeavesSmallHeaps(t *testing.T) {
	if !alone(t) {
		return
	}
	collapses(t)
	b := smallHeap(t, worthwhile*3/4)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var k Keeper
	if err := k.Run(ctx, time.Hour); err != nil || k.HugeBytes() != 0 {
		t.Errorf("Run = %v, with %d bytes huge, want none of so small a heap", err, k.HugeBytes())
	}
	runtime.KeepAlive(b)
}

// TestGivenBackStaysSo: what Go gives back of memory that was collapsed the kernel does not fill again, as it does where memory is advised.
func TestGivenBackStaysSo(t *testing.T) {
	if !alone(t) {
		return
	}
	collapses(t)
	b := smallHeap(t, 96<<20)
	var k Keeper
	k.tend()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) { // "VmFlags: rd wr mr mw me ac hg"
		if flags := strings.Fields(line); len(flags) > 0 && flags[0] == "VmFlags:" && slices.Contains(flags, "hg") {
			t.Errorf("memory is advised (%s): khugepaged may fill what was given back of it", strings.TrimSpace(line))
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

// BenchmarkTick is a tick that finds nothing to do.
func BenchmarkTick(b *testing.B) {
	collapses(b)
	heap := smallHeap(b, perTick)
	var k Keeper
	k.tend()
	for b.Loop() {
		k.tend()
	}
	runtime.KeepAlive(heap)
}
