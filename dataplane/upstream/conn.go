package upstream

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// staleCheckAfter is the idle time from which the kernel is asked whether a connection still
// lives. Under load that system call would be paid on every request, and a close that crosses a
// request is retried anyway.
const staleCheckAfter = 100 * time.Millisecond

// conn is one connection to a worker. It belongs to one request at a time.
type conn struct {
	in  responseReader
	out requestWriter

	tcp    net.Conn // closed by abort; closing TLS instead could wait for the worker
	to     Target
	raw    syscall.RawConn // of tcp; nil where it has none
	relay  *relay          // of the streams that pass; nil before the first
	peekFn func(fd uintptr)
	peeked bool

	idleSince time.Time
	reused    bool
	renewed   uint64 // as of its list when it was dialed
}

var _ aborter = (*conn)(nil)

// newConn returns a connection that is read and written by nc, which is tcp or TLS over it.
func newConn(nc, tcp net.Conn, to *Target, readers *sync.Pool) *conn {
	if nc == tcp {
		nc = socket.New(tcp)
	}
	cn := &conn{tcp: tcp, to: *to, in: responseReader{nc: nc, readers: readers}, out: requestWriter{nc: nc, tcp: tcp}}
	sc, ok := tcp.(syscall.Conn)
	if !ok {
		return cn
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return cn
	}
	cn.raw, cn.peekFn = raw, cn.peek
	if to.TLS == nil {
		cn.in.raw, cn.in.fillFn = raw, cn.in.tryFill
		cn.out.raw, cn.out.writeFn = raw, cn.out.tryWrite
	}
	return cn
}

// abort closes the connection at once; safe from any goroutine, any number of times.
func (cn *conn) abort() { _ = cn.tcp.Close() }

// send writes the head in out and the body. See requestWriter.send.
func (cn *conn) send(body [][]byte) { cn.out.send(body) }

// alive asks the kernel whether an idle connection was closed by the worker, or holds bytes
// that no request asked for.
func (cn *conn) alive() bool {
	if cn.raw == nil {
		return true
	}
	cn.peeked = false
	// Control, not Read: a deadline left over from the last request says nothing about the
	// connection.
	if err := cn.raw.Control(cn.peekFn); err != nil {
		return false
	}
	return cn.peeked
}

// peek looks at the receive queue of an idle connection; the result goes to peeked.
func (cn *conn) peek(fd uintptr) {
	var b [1]byte
	_, err := socket.Peek(fd, b[:])
	// Else the connection is closed, or holds bytes that no request asked for: they would
	// become the next answer's, or are TLS's word that the worker closes. Session tickets do
	// not lie here: workers send them behind their handshake, and they were read with the first
	// answer.
	cn.peeked = errors.Is(err, unix.EAGAIN)
}
