package zmq

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receive reads at most len(p) bytes, which must not be zero. The call never blocks and
// bypasses the scheduler, which in an idle process would wake the runtime's monitor thread for
// each message. errno is EAGAIN if no byte waits; at the end of the stream n and errno are 0.
func receive(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	got, _, errno := unix.RawSyscall6(
		unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// limitUnacknowledged makes the kernel close a connection whose peer acknowledges nothing for d.
func limitUnacknowledged(raw syscall.RawConn, d time.Duration) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, failed)
}
