package zmq

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receive reads at most len(p) bytes, which must not be zero, by a call that never waits and that the scheduler is not told
// of: told of one, a process that was idle wakes the runtime's monitor thread, for each message. The errno is EAGAIN where
// nothing waits; n is 0 without one at the end of the stream.
func receive(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	got, _, errno := unix.RawSyscall6(
		unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// boundAnswer makes the kernel give up a peer that does not acknowledge what we send for so long.
func boundAnswer(raw syscall.RawConn, d time.Duration) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, failed)
}
