package upstream

import (
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// staleCheckAfter is the idle time from which the kernel is asked whether a connection still
// lives. Under load that system call would be paid on every request, and a close that crosses a
// request is retried anyway.
const staleCheckAfter = 100 * time.Millisecond

// quietFor is the idle time below which a connection is hot: from some hundred requests a
// second on, most are.
const quietFor = 10 * time.Millisecond

// conn is one connection to a worker. It belongs to one request at a time.
type conn struct {
	in  responseReader
	out requestWriter

	tcp    net.Conn // closed by abort; closing TLS instead could wait for the worker
	key    poolKey
	raw    syscall.RawConn // of tcp; nil where it has none
	relay  *relay          // of the streams that pass; nil before the first
	peekFn func(fd uintptr)
	peeked bool

	idleSince time.Time
	reused    bool
	hot       bool // was idle for less than quietFor
}

var _ aborter = (*conn)(nil)

// newConn returns a connection that is read and written by nc, which is tcp or TLS over it.
func newConn(nc, tcp net.Conn, k poolKey, readers *sync.Pool) *conn {
	if nc == tcp {
		nc = socket.New(tcp)
	}
	cn := &conn{tcp: tcp, key: k, in: responseReader{nc: nc, readers: readers}, out: requestWriter{nc: nc, tcp: tcp}}
	sc, ok := tcp.(syscall.Conn)
	if !ok {
		return cn
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return cn
	}
	cn.raw, cn.peekFn = raw, cn.peek
	if k.tls == nil {
		cn.in.raw, cn.in.fillFn, cn.in.out = raw, cn.in.tryFill, &cn.out
		cn.out.raw, cn.out.writeFn = raw, cn.out.tryWrite
	}
	return cn
}

// abort closes the connection at once; safe from any goroutine, any number of times.
func (cn *conn) abort() { _ = cn.tcp.Close() }

// send writes the head in out and the body. See requestWriter.send.
func (cn *conn) send(body [][]byte) { cn.out.send(body, cn.quiet()) }

// quiet reports whether nothing has come before the request is sent. The request is then sent
// where its answer is waited for, in responseReader.tryFill: after the poller has forgotten
// earlier events and before it waits. That spares the read that would find nothing, one system
// call of four, and one that contends for the socket with the answer on its way.
//
// Bytes that do come before go unnoticed, so a quiet connection is one that was in use a moment
// ago. A worker that ends the connection in that moment answers the request with a reset, which
// wakes. One that only closed its sending side, unannounced, does not: keep-alive probes find
// it once it has closed the other side, too.
func (cn *conn) quiet() bool { return cn.hot && cn.in.raw != nil && cn.in.buffered() == 0 }

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
