package ingress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// writeSome writes as much of p as the socket takes without a wait.
func writeSome(nc net.Conn, p []byte) (int, error) {
	if c, ok := nc.(*socket.Conn); ok {
		return c.WriteSome(p)
	}
	return 0, nil
}

// untaken returns the bytes in a socket's send queue: not sent, or not confirmed.
func untaken(nc net.Conn) int { return queued(nc, unix.SIOCOUTQ) }

// unread reports whether bytes have come that nobody has read.
func unread(nc net.Conn) bool { return queued(nc, unix.SIOCINQ) > 0 }

// queued returns the bytes in one of a socket's queues.
func queued(nc net.Conn, which uint) (n int) {
	tcp := tcpBelow(nc)
	if tcp == nil {
		return 0
	}
	var raw syscall.RawConn
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), which) })
	return n
}
