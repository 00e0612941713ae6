package ingress

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// stallLooks is how often a waiting write looks for progress within the time of a stall, which is
// found late by that share of it.
const stallLooks = 8

const (
	// wholeSize is the size of a write from which it is an answer that the router holds as a whole:
	// pieces of streams are smaller. Such an answer must be taken at the rate of requests.
	wholeSize = 64 << 10
	// wholesLimit bounds the bytes of such answers. Beyond it an answer that is taken more slowly
	// than the rate is cut after crowdedGrace.
	wholesLimit  = 256 << 20
	crowdedGrace = time.Second
)

// sender writes to the socket of a client, below TLS. A write waits for as long as the client
// takes bytes, however slowly, and ends when it has taken none for the time of a stall. Of an
// answer that the router holds as a whole the client must take enough.
//
// A socket with a large buffer is writable again only once a third of it is free: a client that
// takes 10 KB a second from 4 MB would look stalled for minutes. The bytes that the client has
// confirmed tell the truth.
type sender struct {
	nc      net.Conn
	stall   time.Duration
	untaken func() int // bytes that were written and that the client has not confirmed
	stalled func()     // ends the connection

	whole  readLimit     // of the present answer; the zero value, without a rate: it is not whole
	wholes *atomic.Int64 // bytes of the whole answers of all clients

	// others is set once other code has set a deadline for writes: TLS for its last message, or a
	// linger.
	others atomic.Bool
}

// Write writes all of p.
func (s *sender) Write(p []byte) (int, error) {
	n, err := writeSome(s.nc, p)
	s.whole.got += int64(n)
	if err != nil || n == len(p) {
		return n, err
	}
	if s.others.Load() {
		m, err := s.nc.Write(p[n:])
		return n + m, err
	}
	return s.wait(p, n)
}

// wait writes the rest of p behind the n bytes that the socket has taken at once.
func (s *sender) wait(p []byte, n int) (int, error) {
	taken, progress, look := math.MinInt, time.Now(), s.stall/stallLooks
	if s.whole.rate > 0 {
		look = min(look, crowdedGrace)
	}
	for {
		if err := s.nc.SetWriteDeadline(time.Now().Add(look)); err != nil {
			return n, err
		}
		m, err := s.nc.Write(p[n:])
		n += m
		s.whole.got += int64(m)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || s.others.Load() {
			return n, err
		}
		switch t, now := n-s.untaken(), time.Now(); {
		case s.late(now):
			s.stalled()
			return n, errStalled
		case t > taken:
			taken, progress = t, now
		case now.Sub(progress) >= s.stall:
			s.stalled()
			return n, errStalled
		}
	}
}

// late reports whether the client has taken too little of a whole answer.
func (s *sender) late(now time.Time) bool {
	if s.whole.rate == 0 {
		return false
	}
	l := s.whole
	if s.wholes.Load() > wholesLimit {
		l.grace = min(l.grace, crowdedGrace)
	}
	return now.After(l.due())
}

// writeWhole writes an answer that the router holds as a whole.
func (cl *Client) writeWhole(p []byte) (int, error) {
	s, size := &cl.out, int64(len(p))
	s.wholes.Add(size)
	defer s.wholes.Add(-size)
	s.whole = readLimit{grace: cl.limit.grace, rate: cl.limit.rate, since: time.Now()}
	defer func() { s.whole = readLimit{} }()
	return cl.writes.write(p)
}

// cutStalled ends the connection of a client that takes nothing, or too little. Such a client
// counts as gone, so the kernel drops the bytes that it has not taken.
func cutStalled(cl *Client) {
	cl.s.cfg.Closed(ReasonStalled)
	cl.left()
	if tcp := tcpBelow(cl.tcp); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	cl.cut()
}

// heldWrites gathers writes to a client, so that they leave in one.
type heldWrites struct {
	out     io.Writer // the socket, or TLS over it
	holding bool
	b       []byte // in buffer unless it outgrew it
	buffer  *socket.Buffer
}

// write writes p, behind the bytes that are held, or holds it.
func (w *heldWrites) write(p []byte) (int, error) {
	if !w.holding && w.buffer == nil {
		return w.out.Write(p)
	}
	if w.buffer == nil {
		w.buffer = socket.TakeBuffer()
		w.b = w.buffer[:0]
	}
	w.b = append(w.b, p...)
	if w.holding {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the bytes that are held.
func (w *heldWrites) flush() error {
	w.holding = false
	if w.buffer == nil {
		return nil
	}
	_, err := w.out.Write(w.b)
	w.buffer.Release()
	w.b, w.buffer = nil, nil
	return err
}

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
