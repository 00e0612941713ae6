package hugepage

import (
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapSmall maps n times Size of memory that the kernel keeps in small pages.
func mapSmall(t *testing.T, n int) ([]byte, uintptr) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, (n+1)*Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		t.Skip("the kernel has no huge pages: ", err)
	}
	start := uintptr(unsafe.Pointer(&b[0]))
	skip := (Size - start%Size) % Size
	return b[skip:][:n*Size], start + skip
}

func TestScanFindsRanges(t *testing.T) {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer pagemap.Close()
	// Small pages touched in each 2 MiB. The series are longer than perCall, the regions more
	// than one scan returns.
	touched := []int{512, 0, minSmall, minSmall - 1, 512, 512, 1}
	for range perCall/Size + 2 {
		touched = append(touched, 512)
	}
	for range 8 {
		touched = append(touched, 256)
	}
	b, start := mapSmall(t, len(touched))
	var want []span
	for i, n := range touched {
		at := i * Size
		for page := range n {
			step := 1
			if n == 256 {
				step = 2
			}
			b[at+page*step*4096] = 1
		}
		if n >= minSmall {
			s := start + uintptr(at)
			want = join(want, span{s, s + Size})
		}
	}
	q := newPageScan()
	q.start, q.end = uint64(start), uint64(start+Size)
	if _, err := q.call(pagemap.Fd()); err != nil {
		t.Skip("the kernel cannot say which pages are small (Linux 6.7 can): ", err)
	}
	got := q.appendSmall(nil, pagemap.Fd(), span{start, start + uintptr(len(b))})
	if !slices.Equal(got, want) {
		t.Errorf("small = %#x, want %#x", got, want)
	}
}

func TestJoin(t *testing.T) {
	var spans []span
	for i := range uintptr(2*perCall/Size + 1) {
		spans = join(spans, span{i * Size, (i + 1) * Size})
	}
	spans = join(spans, span{10 * perCall, 10*perCall + Size})
	want := []span{{0, perCall}, {perCall, 2 * perCall}, {2 * perCall, 2*perCall + Size}, {10 * perCall, 10*perCall + Size}}
	if !slices.Equal(spans, want) {
		t.Errorf("join made %#x, want %#x", spans, want)
	}
}
