package sim

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// disconnectCheck is the time without progress after which SGLang looks whether a client has
	// left (SGLANG_REQUEST_STATE_WAIT_TIMEOUT).
	disconnectCheck = 4 * time.Second
	// minDisconnectCheck keeps a high time scale from thousands of looks a second.
	minDisconnectCheck = 20 * time.Millisecond
)

// jobClient waits for a job: its handler, and the client behind it.
type jobClient struct {
	wake chan struct{} // shared by the job's sequences
	conn net.Conn      // nil: a client that cannot leave
	look *time.Timer   // of the next look at conn
}

// await returns when a sequence of j may have progressed. It returns false after a crash, and
// after the client has left: then it has aborted j.
func (a *answerer) await(j *job) bool {
	every := max(minDisconnectCheck, a.cfg.real(disconnectCheck))
	if j.look == nil {
		j.look = time.NewTimer(every)
	} else {
		j.look.Reset(every)
	}
	defer j.look.Stop()
	for {
		select {
		case <-j.wake:
			return true
		case <-a.ctx.Done():
			return false
		case <-j.look.C:
		}
		if !a.faults.awaitUnhang(a.ctx) {
			return false
		}
		if j.conn != nil && ended(j.conn) {
			a.abortWork(j)
			return false
		}
		j.look.Reset(every)
	}
}

// ended reports whether the peer has closed or reset c.
func ended(c net.Conn) bool {
	if tracked, ok := c.(*conn); ok {
		c = tracked.Conn
	}
	sys, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return true
	}
	var n int
	var peeked error
	err = raw.Control(func(fd uintptr) {
		n, _, peeked = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return true
	case peeked == nil:
		return n == 0 // else the next request is there
	}
	return peeked != unix.EAGAIN && peeked != unix.EINTR
}
