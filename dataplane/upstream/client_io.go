package upstream

import (
	"errors"
	"io"
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

// aheadBuffer is as much of a request as is read at once.
type aheadBuffer [16 << 10]byte

var aheadBuffers = sync.Pool{New: func() any { return new(aheadBuffer) }}

func takeBuffer() *aheadBuffer { return aheadBuffers.Get().(*aheadBuffer) } //nolint:forcetypeassert // Nothing else is put there.

// lender is a connection that needs no buffer while it waits for bytes.
type lender interface {
	// readAhead takes a buffer when there are bytes to read, and reads them into it.
	readAhead() (room *aheadBuffer, n int, err error)
}

// errParked ends fasthttp's wait for the next request; the connection waits on.
var errParked = errors.New("proxy: connection parked")

// Read reads from the client.
func (cl *Client) Read(p []byte) (int, error) {
	if err := cl.flush(); err != nil {
		return 0, err
	}
	if len(cl.ahead) > 0 {
		n := copy(p, cl.ahead)
		cl.drop(n)
		return n, nil
	}
	if cl.idle {
		return cl.readIdle(p)
	}
	n, err := cl.receive(p)
	if err == nil && cl.coding.on {
		err = cl.coding.read(n)
	}
	if err != nil && cl.readErr == nil {
		cl.readErr = err
	}
	return n, err
}

// readIdle waits for the next request for as long as that is worth fasthttp's buffers.
func (cl *Client) readIdle(p []byte) (int, error) {
	if cl.s.draining.Load() {
		return 0, io.EOF
	}
	// The client was answered just now: whoever has waited for longer goes first. Under load the next request is there by then,
	// and comes without a wait; at once, the read would find nothing, and contend for the socket with the answer on its way.
	runtime.Gosched()
	cl.want = time.Now().Add(parkAfter)
	n, err := cl.receive(p)
	switch {
	case n > 0 && cl.begin():
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		cl.parked = true
		return 0, errParked
	}
	return 0, io.EOF
}

// receive reads from the connection; with no p, into cl.ahead, where the next request begins.
func (cl *Client) receive(p []byte) (int, error) {
	if s, ok := cl.Conn.(*session); ok && len(p) > 0 {
		if n := s.rest(p); n > 0 {
			cl.arrival.got += int64(n)
			return n, nil
		}
	}
	if len(p) > 0 && !cl.idle {
		cl.expect()
	}
	for {
		due := cl.due()
		if !due.IsZero() && (cl.armed.IsZero() || due.Before(cl.armed)) {
			if err := cl.arm(due); err != nil {
				return 0, err
			}
		}
		n, err := cl.read(p)
		if n > 0 {
			cl.arrival.got += int64(n)
			return n, err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		cl.armed = time.Time{} // it has passed
		if due := cl.due(); !due.IsZero() && !time.Now().Before(due) {
			cl.arrival.late = !cl.arrival.since.IsZero()
			return 0, err
		}
		if err := cl.arm(cl.due()); err != nil {
			return 0, err
		}
	}
}

// read reads once.
func (cl *Client) read(p []byte) (n int, err error) {
	if len(p) > 0 {
		return cl.Conn.Read(p)
	}
	if from, ok := cl.Conn.(lender); ok {
		cl.room, n, err = from.readAhead()
	} else {
		cl.room = takeBuffer()
		n, err = cl.Conn.Read(cl.room[:])
	}
	if n == 0 && cl.room != nil {
		aheadBuffers.Put(cl.room)
		cl.room = nil
	}
	if n > 0 {
		cl.ahead = cl.room[:n]
	}
	return n, err
}

// drop drops n bytes of what was read ahead, and room with the last of them.
func (cl *Client) drop(n int) {
	if cl.ahead = cl.ahead[n:]; len(cl.ahead) > 0 {
		return
	}
	if cl.ahead = nil; cl.room != nil {
		aheadBuffers.Put(cl.room)
		cl.room = nil
	}
}

// SetDeadline implements net.Conn.
func (cl *Client) SetDeadline(t time.Time) error {
	cl.want, cl.armed = t, t
	return cl.Conn.SetDeadline(t)
}

// arm tells the poller when to wake. It is not told of a later deadline than the one it knows, nor of none: receive sees to the
// rest when it is woken. Telling it costs more than the rest of a small read.
func (cl *Client) arm(t time.Time) error {
	cl.armed = t
	return cl.Conn.SetReadDeadline(t)
}

// hold keeps back what is written until unhold; the first write, read or close after that sends all of it. fasthttp (1.74) ends a chunked
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

// Write writes to the client what is not held back.
func (cl *Client) Write(p []byte) (int, error) {
	if cl.holding {
		if cl.keep == nil {
			cl.keep = takeBuffer()
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

// flush writes what is held back still.
func (cl *Client) flush() error {
	if cl.keep == nil {
		return nil
	}
	cl.holding = false
	return cl.release(cl.Conn)
}

// release writes what was held back.
func (cl *Client) release(to net.Conn) error {
	held, keep := cl.held, cl.keep
	cl.held, cl.keep = nil, nil
	_, err := to.Write(held)
	aheadBuffers.Put(keep)
	return err
}
