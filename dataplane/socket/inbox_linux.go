package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Inbox receives, and learns how much is left to receive: Linux tells so with each read from
// 4.18 on (TCP_INQ), and a reader is spared the read that would find nothing.
type Inbox struct {
	Left bool // more bytes, or the end of the connection, can be received, or may be

	asked bool // the kernel tells
	msg   unix.Msghdr
	vec   unix.Iovec
	told  struct {
		unix.Cmsghdr
		left int32 // bytes; the end of the connection is one
	}
}

// Ask has the kernel tell.
func (b *Inbox) Ask(fd uintptr) {
	b.asked = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil
}

// Receive is the function Receive.
func (b *Inbox) Receive(fd uintptr, p []byte) (int, error) {
	if b.Left = true; !b.asked {
		return Receive(fd, p)
	}
	b.told.Type = 0
	b.vec.Base = &p[0]
	b.vec.SetLen(len(p))
	b.msg = unix.Msghdr{Iov: &b.vec, Control: (*byte)(unsafe.Pointer(&b.told))}
	b.msg.SetIovlen(1)
	b.msg.SetControllen(int(unsafe.Sizeof(b.told)))
	n, err := call("recvmsg", unix.SYS_RECVMSG, fd, unsafe.Pointer(&b.msg), unix.MSG_DONTWAIT, 0)
	b.vec.Base = nil // the buffer is the caller's
	b.Left = b.told.Level != unix.IPPROTO_TCP || b.told.Type != unix.TCP_CM_INQ || b.told.left != 0
	return n, err
}
