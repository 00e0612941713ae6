//go:build !linux

package zmq

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// receive reads at most len(p) bytes from a descriptor that does not block. The errno is EAGAIN where nothing waits; n is 0
// without one at the end of the stream.
func receive(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	n, err := unix.Read(int(fd), p)
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EIO
	}
	return max(n, 0), errno
}

// boundAnswer does nothing: only Linux has TCP_USER_TIMEOUT.
func boundAnswer(syscall.RawConn, time.Duration) error { return nil }
