package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a TCP connection whose reads and writes are system calls that the scheduler is not told of. They never wait, so
// there is nothing to tell; and telling has a price: in a process that was idle, the first such call wakes the runtime's
// monitor thread, which is two futex calls, a sleep and two context switches for each request, and for each chunk of a
// stream. It is Go's poller that waits, as ever.
//
// One goroutine may read while another one writes.
type socket struct {
	net.Conn
	raw syscall.RawConn

	in    []byte // of the read in progress
	got   int
	inErr error
	room  *aheadBuffer // of the readAhead in progress

	out    []byte // of the write in progress
	outErr error

	readFn, aheadFn, writeFn func(fd uintptr) bool // method values made once: a closure per call is an allocation
	someFn                   func(fd uintptr)
}

// newSocket returns nc itself where it is not a TCP connection.
func newSocket(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc
	}
	s := &socket{Conn: nc, raw: raw}
	s.readFn, s.aheadFn, s.writeFn, s.someFn = s.tryRead, s.tryAhead, s.tryWrite, s.trySome
	return s
}

// NetConn returns the connection below.
func (s *socket) NetConn() net.Conn { return s.Conn }

// Read reads what is there, and waits where nothing is.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in = p
	err := s.raw.Read(s.readFn)
	s.in = nil
	return s.received(err)
}

// received is the result of a read, of which waiting ended with err.
func (s *socket) received(err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case s.inErr != nil:
		return 0, s.opError("read", s.inErr)
	case s.got == 0:
		return 0, io.EOF
	}
	return s.got, nil
}

// readAhead implements lender. The poller calls tryAhead once before it waits and once after, so that the buffer is taken
// twice and held by nobody in between.
func (s *socket) readAhead() (room *aheadBuffer, n int, err error) {
	err = s.raw.Read(s.aheadFn)
	room, s.room = s.room, nil
	if n, err = s.received(err); err != nil && room != nil {
		aheadBuffers.Put(room)
		room = nil
	}
	return room, n, err
}

func (s *socket) tryAhead(fd uintptr) bool {
	room := takeBuffer()
	s.got, s.inErr = receive(fd, room[:])
	if errors.Is(s.inErr, unix.EAGAIN) {
		aheadBuffers.Put(room)
		return false
	}
	s.room = room
	return true
}

func (s *socket) tryRead(fd uintptr) bool {
	s.got, s.inErr = receive(fd, s.in)
	return !errors.Is(s.inErr, unix.EAGAIN)
}

// Write writes all of p.
func (s *socket) Write(p []byte) (int, error) {
	s.out, s.outErr = p, nil
	return s.sent(len(p), s.raw.Write(s.writeFn))
}

// writeSome writes as much of p as the socket takes now. It does not ask for the poller, which is told of each Write.
func (s *socket) writeSome(p []byte) (int, error) {
	s.out, s.outErr = p, nil
	return s.sent(len(p), s.raw.Control(s.someFn))
}

// sent is the result of a write of size bytes, which err, if any, has kept from being made.
func (s *socket) sent(size int, err error) (int, error) {
	n := size - len(s.out)
	s.out = nil
	if err == nil && s.outErr != nil {
		err = s.opError("write", s.outErr)
	}
	return n, err
}

func (s *socket) trySome(fd uintptr) { s.tryWrite(fd) }

// tryWrite writes what the socket takes, and reports whether there is nothing to wait for.
func (s *socket) tryWrite(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := send(fd, s.out)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err != nil {
			s.outErr = err
			return true
		}
		s.out = s.out[n:]
	}
	return true
}

func (s *socket) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

// receive reads at most len(p) bytes, which must not be zero. The error is unix.EAGAIN itself, or wraps another one.
func receive(fd uintptr, p []byte) (int, error) {
	return unknown("recvfrom", unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT)
}

// look is receive of bytes that stay where they are.
func look(fd uintptr, p []byte) (int, error) {
	return unknown("recvfrom", unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT|unix.MSG_PEEK)
}

// inbox receives, and learns of what is left to receive: Linux tells so with each read from 4.18 on.
type inbox struct {
	asked bool // and it will be told
	left  bool // or may be
	msg   unix.Msghdr
	vec   unix.Iovec
	told  struct {
		unix.Cmsghdr
		left int32 // bytes, the end of the connection being one
	}
}

// ask has the kernel tell.
func (b *inbox) ask(fd uintptr) {
	b.asked = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil
}

// receive is the function receive.
func (b *inbox) receive(fd uintptr, p []byte) (int, error) {
	if b.left = true; !b.asked {
		return receive(fd, p)
	}
	b.told.Type = 0
	b.vec.Base = &p[0]
	b.vec.SetLen(len(p))
	b.msg = unix.Msghdr{Iov: &b.vec, Control: (*byte)(unsafe.Pointer(&b.told))}
	b.msg.SetIovlen(1)
	b.msg.SetControllen(int(unsafe.Sizeof(b.told)))
	n, err := unknown("recvmsg", unix.SYS_RECVMSG, fd, unsafe.Pointer(&b.msg), unix.MSG_DONTWAIT, 0)
	b.vec.Base = nil // the buffer is the caller's
	b.left = b.told.Level != unix.IPPROTO_TCP || b.told.Type != unix.TCP_CM_INQ || b.told.left != 0
	return n, err
}

// send writes as much of p, which must not be empty, as the socket takes now. Errors are as receive's.
func send(fd uintptr, p []byte) (int, error) {
	return unknown("sendto", unix.SYS_SENDTO, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// gather is send of several pieces; the descriptor must not block.
func gather(fd uintptr, v []unix.Iovec) (int, error) {
	return unknown("writev", unix.SYS_WRITEV, fd, unsafe.Pointer(&v[0]), len(v), 0)
}

// unknown makes a system call that the scheduler does not know of.
func unknown(name string, trap, fd uintptr, p unsafe.Pointer, n int, flags uintptr) (int, error) {
	for {
		done, _, errno := unix.RawSyscall6(trap, fd, uintptr(p), uintptr(n), flags, 0, 0)
		switch errno {
		case 0:
			return int(done), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN
		default:
			return 0, os.NewSyscallError(name, errno)
		}
	}
}
