package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection.
type Conn struct {
	net.Conn
	raw syscall.RawConn

	in    []byte // of the read in progress
	got   int
	inErr error
	ahead *Buffer // of the ReadAhead in progress

	out    []byte // of the write in progress
	outErr error

	// Method values made once: a closure per call is an allocation.
	readFn, aheadFn, writeFn func(fd uintptr) bool
	someFn                   func(fd uintptr)
}

var _ AheadReader = (*Conn)(nil)

// New returns a Conn over nc, or nc itself where it is not a TCP connection.
func New(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc
	}
	c := &Conn{Conn: nc, raw: raw}
	c.readFn, c.aheadFn, c.writeFn, c.someFn = c.tryRead, c.tryAhead, c.tryWrite, c.trySome
	return c
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read returns the bytes that have come, and waits for one where there is none.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in = p
	err := c.raw.Read(c.readFn)
	c.in = nil
	return c.received(err)
}

// received is the result of a read whose wait ended with err.
func (c *Conn) received(err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case c.inErr != nil:
		return 0, c.opError("read", c.inErr)
	case c.got == 0:
		return 0, io.EOF
	}
	return c.got, nil
}

// ReadAhead implements AheadReader. The poller calls tryAhead once before it waits and once
// after, so that nobody holds a buffer in between.
func (c *Conn) ReadAhead() (b *Buffer, n int, err error) {
	err = c.raw.Read(c.aheadFn)
	b, c.ahead = c.ahead, nil
	if n, err = c.received(err); err != nil && b != nil {
		b.Release()
		b = nil
	}
	return b, n, err
}

func (c *Conn) tryAhead(fd uintptr) bool {
	b := TakeBuffer()
	c.got, c.inErr = Receive(fd, b[:])
	if errors.Is(c.inErr, unix.EAGAIN) {
		b.Release()
		return false
	}
	c.ahead = b
	return true
}

func (c *Conn) tryRead(fd uintptr) bool {
	c.got, c.inErr = Receive(fd, c.in)
	return !errors.Is(c.inErr, unix.EAGAIN)
}

// Write writes all of p.
func (c *Conn) Write(p []byte) (int, error) {
	c.out, c.outErr = p, nil
	return c.sent(len(p), c.raw.Write(c.writeFn))
}

// WriteSome writes as much of p as the socket takes now. It leaves the poller alone, which
// hears of each Write.
func (c *Conn) WriteSome(p []byte) (int, error) {
	c.out, c.outErr = p, nil
	return c.sent(len(p), c.raw.Control(c.someFn))
}

// sent is the result of a write of size bytes; err, if any, has prevented it.
func (c *Conn) sent(size int, err error) (int, error) {
	n := size - len(c.out)
	c.out = nil
	if err == nil && c.outErr != nil {
		err = c.opError("write", c.outErr)
	}
	return n, err
}

func (c *Conn) trySome(fd uintptr) { c.tryWrite(fd) }

// tryWrite writes as much as the socket takes, and reports whether there is nothing to wait
// for.
func (c *Conn) tryWrite(fd uintptr) bool {
	for len(c.out) > 0 {
		n, err := Send(fd, c.out)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err != nil {
			c.outErr = err
			return true
		}
		c.out = c.out[n:]
	}
	return true
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Receive reads at most len(p) bytes, which must not be zero. The error is unix.EAGAIN itself,
// or wraps another one.
func Receive(fd uintptr, p []byte) (int, error) {
	return call("recvfrom", unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT)
}

// Peek is Receive of bytes that stay in the socket.
func Peek(fd uintptr, p []byte) (int, error) {
	return call("recvfrom", unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT|unix.MSG_PEEK)
}

// Send writes as much of p, which must not be empty, as the socket takes now. Errors are as
// Receive's.
func Send(fd uintptr, p []byte) (int, error) {
	return call("sendto", unix.SYS_SENDTO, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// Gather is Send of several pieces; the descriptor must not block.
func Gather(fd uintptr, v []unix.Iovec) (int, error) {
	return call("writev", unix.SYS_WRITEV, fd, unsafe.Pointer(&v[0]), len(v), 0)
}

// call makes a system call without a word to the scheduler.
func call(name string, trap, fd uintptr, p unsafe.Pointer, n int, flags uintptr) (int, error) {
	for {
		done, _, errno := unix.RawSyscall6(trap, fd, uintptr(p), uintptr(n), flags, 0, 0)
		count(errno)
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
