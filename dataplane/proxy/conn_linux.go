package proxy

import (
	"errors"

	"golang.org/x/sys/unix"
)

// peek looks at the receive queue of an idle connection; the result goes to peeked.
func (cn *conn) peek(fd uintptr) {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN):
		cn.peeked = true
	case err == nil && n > 0:
		// TLS 1.3 leaves session tickets unread; on a plain connection an unasked byte would become the next answer's.
		cn.peeked = cn.tls()
	default:
		cn.peeked = false
	}
}

// vectors are pieces as the kernel wants them.
type vectors []unix.Iovec

// tryWrite sends as much as the socket takes now; the result goes to out.
func (cn *conn) tryWrite(fd uintptr) bool {
	for len(cn.out.parts) > 0 {
		cn.vec = cn.vec[:0]
		for _, p := range cn.out.parts[:min(len(cn.out.parts), maxVec)] {
			v := unix.Iovec{Base: &p[0]}
			v.SetLen(len(p))
			cn.vec = append(cn.vec, v)
		}
		n, err := gather(fd, cn.vec)
		clear(cn.vec) // the pieces are the caller's
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				cn.out.err = err
			}
			break
		}
		cn.out.advance(n)
	}
	return true // Never park: whoever waits here could not read an early answer.
}

// writeNow sends what the socket takes without waiting.
func (cn *conn) writeNow() {
	if cn.raw == nil || cn.tls() {
		cn.writeSmall()
		return
	}
	if err := cn.raw.Write(cn.writeFn); err != nil {
		cn.out.err = err
	}
}
