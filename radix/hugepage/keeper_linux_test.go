package hugepage

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallHeap returns n bytes of heap that are in memory in small pages.
func smallHeap(tb testing.TB, n int) []byte {
	tb.Helper()
	b := make([]byte, n)
	start := uintptr(unsafe.Pointer(&b[0]))
	s := span{start, start + uintptr(n)}.whole()
	madvise(s, unix.MADV_DONTNEED) // all of it is zero
	madvise(s, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// collapses skips the test where the kernel cannot say which pages are small, or has no huge ones.
func collapses(tb testing.TB) {
	tb.Helper()
	if !asked() {
		tb.Skipf("transparent huge pages are %q here", Setting())
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
	for deadline := time.Now().Add(20 * time.Second); k.HugeBytes() < n*3/4; time.Sleep(5 * time.Millisecond) {
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

func TestCollapse(t *testing.T) {
	if !alone(t) {
		return
	}
	collapses(t)
	const n = 64 << 20
	b := smallHeap(t, n)
	Collapse()
	if huge := Bytes(); huge < n*3/4 {
		t.Errorf("%d bytes are huge, want most of %d", huge, n)
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
	heap := smallHeap(b, 256<<20)
	Collapse()
	var k Keeper
	for b.Loop() {
		k.tend()
	}
	runtime.KeepAlive(heap)
}
