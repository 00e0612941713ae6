package hugepage

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// growHeap allocates n bytes that nobody uses, and has their mapping advised. Go does not touch them: memory that comes fresh from
// the kernel is zero. The address stays right: Go moves no heap object.
func growHeap(n int64) {
	b := make([]byte, n)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	advise(span{start, start + uintptr(n)}.whole())
	runtime.KeepAlive(b)
}

// heapAddress returns an address in the Go heap: pinning makes the object escape to it. Only its neighbourhood is of use, so the
// object need not live on.
func heapAddress() uintptr {
	var pin runtime.Pinner
	defer pin.Unpin()
	object := new([64]byte)
	pin.Pin(object)
	return uintptr(unsafe.Pointer(object))
}

// call asks the kernel, and returns how many regions it has found. The kernel writes to q and its regions: pinning keeps q where it is,
// and on the heap, until the call returns.
func (q *query) call(fd uintptr) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(q)
	q.vector = uint64(uintptr(unsafe.Pointer(&q.regions)))
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, pagemapScan, uintptr(unsafe.Pointer(q)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
