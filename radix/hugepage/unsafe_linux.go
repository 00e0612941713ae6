package hugepage

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// growHeap allocates n bytes without use and advises their mapping. Go does not touch them,
// because fresh memory of the kernel is zero, and moves no heap object, so the address stays
// right.
func growHeap(n int64) {
	b := make([]byte, n)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	advise(span{start, start + uintptr(n)}.whole())
	runtime.KeepAlive(b)
}

// heapAddress returns an address in the Go heap: pinning makes the object escape to it. The
// object need not live on, because callers use the mapping around it.
func heapAddress() uintptr {
	var pin runtime.Pinner
	defer pin.Unpin()
	object := new([64]byte)
	pin.Pin(object)
	return uintptr(unsafe.Pointer(object))
}

// call asks the kernel and returns the number of regions. The kernel writes to p and its
// regions: pinning keeps p in place, and on the heap, until the call returns.
func (p *pageScan) call(fd uintptr) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(p)
	p.vector = uint64(uintptr(unsafe.Pointer(&p.regions)))
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, pagemapScan, uintptr(unsafe.Pointer(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
