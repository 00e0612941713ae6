package upstream

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// maxHeld is the longest last piece of a stream that is worth a copy: it holds the last events.
	maxHeld = 1 << 10
	// maxWhole is the longest answer that is copied so that it leaves in one write: fasthttp's own buffer, which each stream has
	// one of, is smaller. With its header it fits an aheadBuffer.
	maxWhole = 15 << 10
)

// aheadBuffer is as much of a request as is read at once: as large as fasthttp's own buffer.
type aheadBuffer [16 << 10]byte

// lender is a connection that needs no buffer while it waits for bytes.
type lender interface {
	// readAhead takes a buffer of spare when there are bytes to read, and reads them into it.
	readAhead(spare *sync.Pool) (room *aheadBuffer, n int, err error)
}

// Read reads from the client. Who asks for one byte, as fasthttp does between two requests so that it need not keep a buffer,
// is given one; what came with it is kept for the next Read, so that two reads are one system call.
func (cl *Client) Read(p []byte) (int, error) {
	if len(p) == 1 && cl.between && cl.l.plain != nil {
		if err := cl.answerPlain(); err != nil {
			return 0, err
		}
	}
	if len(cl.ahead) > 0 {
		return cl.readKept(p), nil
	}
	return cl.receive(p, len(p) == 1)
}

// receive reads from the connection; with no p, into cl.ahead. next says that a request may begin.
func (cl *Client) receive(p []byte, next bool) (int, error) {
	if s, ok := cl.Conn.(*session); ok && !next {
		if n := s.rest(p); n > 0 {
			cl.arrival.got += int64(n)
			return n, nil
		}
	}
	cl.expects(next)
	for {
		n, err := cl.read(p, next)
		if n > 0 {
			cl.arrival.got += int64(n)
			cl.hears()
			return n, err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		due := cl.due()
		if !due.IsZero() && !time.Now().Before(due) {
			return 0, cl.late(err)
		}
		if err := cl.arm(due); err != nil {
			return 0, err
		}
	}
}

// read reads once.
func (cl *Client) read(p []byte, next bool) (int, error) {
	from, ok := cl.Conn.(lender)
	switch {
	case !next || !ok && len(p) > 0:
		return cl.Conn.Read(p)
	case !ok:
		cl.room, _ = cl.l.spare.Get().(*aheadBuffer)
		n, err := cl.Conn.Read(cl.room[:])
		cl.keepAhead(n)
		return n, err
	}
	if cl.begun {
		// It was answered just now: who has waited for longer goes first. Under load the next request is there by then, and comes without
		// a wait; at once, the read would find nothing, and contend for the socket with the answer on its way.
		runtime.Gosched()
	}
	cl.begun = true
	room, n, err := from.readAhead(&cl.l.spare)
	if err != nil {
		return 0, err
	}
	cl.room = room
	cl.keepAhead(n)
	if len(p) == 0 {
		return n, nil
	}
	return cl.readKept(p), nil
}

// readKept reads what was read ahead, of which there is some.
func (cl *Client) readKept(p []byte) int {
	n := len(cl.ahead)
	if cl.theirs > 0 {
		n = min(n, cl.theirs)
	}
	n = copy(p, cl.ahead[:n])
	cl.theirs = max(cl.theirs-n, 0)
	cl.drop(n)
	return n
}

// keepAhead makes the first n bytes of room what was read ahead.
func (cl *Client) keepAhead(n int) {
	cl.ahead = cl.room[:n]
	cl.drop(0)
}

// drop drops n bytes of what was read ahead, and room with the last of them.
func (cl *Client) drop(n int) {
	if cl.ahead = cl.ahead[n:]; len(cl.ahead) > 0 {
		return
	}
	if cl.ahead = nil; cl.room != nil {
		cl.l.spare.Put(cl.room)
		cl.room = nil
	}
}

// SetReadDeadline does not tell the poller of a later deadline than the one it knows, nor of none: Read sees to the rest
// when it is woken. fasthttp sets one before each request and takes it away after, and telling the poller costs more than
// the rest of a small read.
func (cl *Client) SetReadDeadline(t time.Time) error {
	cl.want = t
	if t.IsZero() || !cl.armed.IsZero() && !t.Before(cl.armed) {
		return nil
	}
	return cl.arm(t)
}

// SetDeadline implements net.Conn.
func (cl *Client) SetDeadline(t time.Time) error {
	cl.want, cl.armed = t, t
	return cl.Conn.SetDeadline(t)
}

// arm tells the poller.
func (cl *Client) arm(t time.Time) error {
	cl.armed = t
	return cl.Conn.SetReadDeadline(t)
}

// hold keeps back what is written until unhold; the first write after that sends all of it. fasthttp (1.74) ends a chunked
// answer with three writes, the last one after it has closed the body: the last piece, "0" and an empty line.
func (cl *Client) hold() {
	if cl != nil {
		cl.holding = true
	}
}

func (cl *Client) unhold() {
	if cl != nil {
		cl.holding = false
	}
}

// hears notes that the client has sent something.
func (cl *Client) hears() {
	if cl.silent.Load() {
		cl.l.heard(cl)
	}
}

// Write writes to the client what is not held back.
func (cl *Client) Write(p []byte) (int, error) {
	if cl.holding {
		if cl.keep == nil {
			cl.keep, _ = cl.l.spare.Get().(*aheadBuffer)
			cl.held = cl.keep[:0]
		}
		cl.held = append(cl.held, p...)
		return len(p), nil
	}
	if cl.keep == nil {
		return cl.Conn.Write(p)
	}
	cl.held = append(cl.held, p...)
	if err := cl.release(cl.Conn); err != nil {
		return 0, err
	}
	return len(p), nil
}

// release writes what was held back.
func (cl *Client) release(to net.Conn) error {
	held, keep := cl.held, cl.keep
	cl.held, cl.keep = nil, nil
	_, err := to.Write(held)
	cl.l.spare.Put(keep)
	return err
}
