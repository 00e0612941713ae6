package upstream

import (
	"bufio"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// A connection that was idle for less is taken without asking the kernel whether it still lives: under load that system
// call would be paid on every request, and a close that crosses our request is retried anyway.
const staleCheckAfter = 100 * time.Millisecond

// quietFor is how long a connection may have been idle to be quiet: from some hundred requests a second on, most are for less.
const quietFor = 10 * time.Millisecond

// conn is one connection to a worker and what a request in flight on it needs. It belongs to one request at a time.
type conn struct {
	nc  net.Conn        // read and written: a socket, or TLS over it
	tcp net.Conn        // closed by abort; closing TLS instead could wait for the peer
	raw syscall.RawConn // plain TCP only: writev without parking
	key poolKey
	br  *bufio.Reader // over this conn; nil while idle, and for plain TCP while nothing is there to read

	readers *sync.Pool // of br

	wait     time.Duration // longest wait of one read; 0 is forever
	deadline time.Time     // what the kernel poller was last told
	got      int64         // bytes read since the connection was opened
	readErr  error         // the first failure of a read

	head    []byte // request head, reused
	out     outgoing
	vec     vectors          // of out, reused
	peekFn  func(fd uintptr) // method values made once: RawConn takes a func, and a closure per call is an allocation
	writeFn func(fd uintptr) bool
	fillFn  func(fd uintptr) bool
	peeked  bool
	fillErr error   // of tryFill
	filling uintptr // 1 + the descriptor that Read shall read without waiting; 0: it waits

	relay   relay // of the stream that passes
	relayFn func(fd uintptr) bool
	inbox   inbox
	handed  []byte // what Read shall return: it was read, and counted, by the relay

	now       time.Time // when it was set, for the one who asks next for the clock; see clock
	idleSince time.Time
	reused    bool
	hot       bool // was idle for less than quietFor
}

var (
	_ io.Reader = (*conn)(nil)
	_ aborter   = (*conn)(nil)
)

func newConn(nc, tcp net.Conn, k poolKey, readers *sync.Pool) *conn {
	if nc == tcp {
		nc = socket.New(tcp)
	}
	cn := &conn{nc: nc, tcp: tcp, key: k, readers: readers}
	sc, ok := tcp.(syscall.Conn)
	if !ok {
		return cn
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return cn
	}
	cn.raw = raw
	cn.peekFn, cn.writeFn, cn.fillFn = cn.peek, cn.tryWrite, cn.tryFill
	return cn
}

// abort closes the connection at once; safe from any goroutine, any number of times.
func (cn *conn) abort() { _ = cn.tcp.Close() }

// Read reads from the worker with the current wait as its time limit.
func (cn *conn) Read(p []byte) (int, error) {
	if cn.filling > 0 {
		return cn.readNow(p)
	}
	if len(cn.handed) > 0 {
		return copy(p, cn.handed), nil
	}
	if err := cn.arm(); err != nil {
		cn.readErr = err
		return 0, err
	}
	n, err := cn.nc.Read(p)
	return cn.note(n, err)
}

// note counts what a read returned.
func (cn *conn) note(n int, err error) (int, error) {
	cn.got += int64(n)
	if err != nil && cn.readErr == nil {
		cn.readErr = err
	}
	return n, err
}

// fill waits until there is a byte in the read buffer. A stream waits for most of its life, and does so without a buffer
// where it can (see waitFill).
func (cn *conn) fill() error {
	if cn.buffered() > 0 {
		return nil
	}
	if cn.lends() {
		return cn.waitFill()
	}
	cn.acquireReader()
	_, err := cn.br.Peek(1)
	return err
}

// buffered returns how many bytes can be read without asking the kernel.
func (cn *conn) buffered() int {
	if cn.br == nil {
		return 0
	}
	return cn.br.Buffered()
}

func (cn *conn) acquireReader() {
	if cn.br == nil {
		cn.br = cn.readers.Get().(*bufio.Reader)
		cn.br.Reset(cn)
	}
}

func (cn *conn) releaseReader() {
	if cn.br == nil {
		return
	}
	cn.br.Reset(nil)
	cn.readers.Put(cn.br)
	cn.br = nil
}

// arm renews the read deadline. Telling the poller costs more than the rest of a small read, so a deadline lies up to an
// eighth of the wait too far in the future and is left alone while it still covers the wait.
func (cn *conn) arm() error {
	if cn.wait <= 0 {
		cn.now = time.Time{}
		if cn.deadline.IsZero() {
			return nil
		}
		cn.deadline = time.Time{}
		return cn.nc.SetReadDeadline(cn.deadline)
	}
	now, slack := cn.clock(), cn.wait/8
	if left := cn.deadline.Sub(now); left >= cn.wait && left <= cn.wait+slack {
		return nil
	}
	cn.deadline = now.Add(cn.wait + slack)
	return cn.nc.SetReadDeadline(cn.deadline)
}

// clock returns what time it is: once, what the owner has just read, and else what the clock says.
func (cn *conn) clock() time.Time {
	now := cn.now
	if cn.now = (time.Time{}); now.IsZero() {
		now = time.Now()
	}
	return now
}

// consumed counts the bytes that were taken out of the read buffer.
func (cn *conn) consumed() int64 { return cn.got - int64(cn.buffered()) }

// alive asks the kernel whether an idle connection was closed by the worker, or holds bytes that no request asked for.
func (cn *conn) alive() bool {
	if cn.raw == nil {
		return true
	}
	cn.peeked = false
	// Control, not Read: a deadline left over from the last request says nothing about the connection.
	if err := cn.raw.Control(cn.peekFn); err != nil {
		return false
	}
	return cn.peeked
}

// tls tells whether bytes on the wire are not the bytes of the protocol.
func (cn *conn) tls() bool { return cn.key.tls != nil }
