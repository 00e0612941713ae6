//go:build !linux

package zmq

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// receive reads at most len(p) bytes from a descriptor that does not block. errno is EAGAIN if
// no byte waits; at the end of the stream n and errno are 0.
func receive(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	n, err := unix.Read(int(fd), p)
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EIO
	}
	return max(n, 0), errno
}

// limitUnacknowledged does nothing: only Linux has TCP_USER_TIMEOUT.
func limitUnacknowledged(syscall.RawConn, time.Duration) error { return nil }
