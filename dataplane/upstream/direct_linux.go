package upstream

import (
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// errWouldBlock is the error of a system call that would have to wait.
var errWouldBlock error = unix.EAGAIN

func receive(fd uintptr, p []byte) (int, error) { return socket.Receive(fd, p) }

// vectors are pieces as the kernel wants them.
type vectors []unix.Iovec

// sendParts sends as much of parts, of which there is one at least, as one system call takes.
func (v *vectors) sendParts(fd uintptr, parts [][]byte) (int, error) {
	if len(parts) == 1 {
		return socket.Send(fd, parts[0])
	}
	*v = (*v)[:0]
	for _, p := range parts[:min(len(parts), maxVec)] {
		iov := unix.Iovec{Base: &p[0]}
		iov.SetLen(len(p))
		*v = append(*v, iov)
	}
	n, err := socket.Gather(fd, *v)
	clear(*v) // the pieces are the caller's
	return n, err
}
