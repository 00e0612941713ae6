package ingress

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// Read reads from the client.
func (cl *Client) Read(p []byte) (int, error) {
	if err := cl.writes.flush(); err != nil {
		return 0, err
	}
	if cl.lines.bare {
		return 0, errBareLF
	}
	if len(cl.ahead) > 0 {
		n := copy(p, cl.ahead)
		cl.drop(n)
		return n, cl.note(p[:n])
	}
	if cl.idle {
		n, err := cl.readIdle(p)
		if err != nil {
			return 0, err // a connection that waits on refers to no part of p
		}
		return n, cl.note(p[:n])
	}
	n, err := cl.readRest(p)
	if err == nil && cl.body.coding.on {
		err = cl.body.coding.read(n)
	}
	err = cmp.Or(err, cl.note(p[:n]))
	if err != nil && cl.readErr == nil {
		cl.readErr = err
	}
	return n, err
}

// note looks at bytes that fasthttp gets, in its buffer.
func (cl *Client) note(p []byte) (err error) {
	p = cl.lines.read(p)
	if cl.body.coding.on {
		p, err = cl.body.coding.chunks.read(p)
	}
	cl.arrived.add(p)
	return err
}

// readIdle waits for the next request for as long as that is worth fasthttp's buffers.
func (cl *Client) readIdle(p []byte) (int, error) {
	if cl.s.draining.Load() && !unread(cl.tcp) {
		return 0, io.EOF
	}
	now := time.Now()
	cl.arrived = arrived{} // its bytes are in fasthttp's buffer, which is freed
	cl.place.waitsFrom(now)
	// The client was answered just now: goroutines that have waited for longer go first. Under
	// load the next request is there by then and comes without a wait; a read at once would
	// find nothing, and contend for the socket with the answer on its way.
	runtime.Gosched()
	cl.limit.wait(now.Add(parkAfter))
	n, err := cl.receive(func() (int, error) { return cl.Conn.Read(p) })
	switch {
	case n > 0 && cl.begin():
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		cl.parked = true
		return 0, errParked
	}
	return 0, io.EOF
}

// readRest reads more of a request that has begun.
func (cl *Client) readRest(p []byte) (int, error) {
	if s, ok := cl.Conn.(*session); ok {
		if n := s.rest(p); n > 0 {
			cl.limit.got += int64(n)
			return n, nil
		}
	}
	cl.limit.arrive()
	n, err := cl.receive(func() (int, error) { return cl.Conn.Read(p) })
	cl.limit.got += int64(n)
	return n, err
}

// readAhead waits for the next request without a buffer where the connection can, and reads its
// beginning.
func (cl *Client) readAhead() error {
	n, err := cl.receive(func() (n int, err error) {
		if from, ok := cl.Conn.(socket.AheadReader); ok {
			cl.buffer, n, err = from.ReadAhead()
			return n, err
		}
		b := socket.TakeBuffer()
		if n, err = cl.Conn.Read(b[:]); n == 0 {
			b.Release()
			return 0, err
		}
		cl.buffer = b
		return n, nil
	})
	if err == nil {
		cl.ahead = cl.buffer[:n]
	}
	return err
}

// receive repeats a read until bytes come or the limit has passed.
func (cl *Client) receive(read func() (int, error)) (int, error) {
	for {
		if err := cl.limit.arm(cl.Conn); err != nil {
			return 0, err
		}
		n, err := read()
		if n > 0 {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || cl.limit.expired() {
			return 0, err
		}
	}
}

// drop takes n bytes from those that were read ahead, and frees the buffer with the last of
// them.
func (cl *Client) drop(n int) {
	if cl.ahead = cl.ahead[n:]; len(cl.ahead) > 0 {
		return
	}
	if cl.ahead = nil; cl.buffer != nil {
		cl.buffer.Release()
		cl.buffer = nil
	}
}

// Write writes to the client, or holds p back between Hold and Unhold.
func (cl *Client) Write(p []byte) (int, error) {
	if len(p) >= wholeSize {
		return cl.writeWhole(p)
	}
	return cl.writes.write(p)
}

// Hold keeps writes back until Unhold; the next write, Flush, read or close then sends them
// with its own. fasthttp (1.74) ends a chunked answer with three writes, which leave as one.
func (cl *Client) Hold() { cl.writes.holding = true }

// Unhold ends Hold.
func (cl *Client) Unhold() { cl.writes.holding = false }

// Flush sends the bytes that are held back.
func (cl *Client) Flush() error { return cl.writes.flush() }

// Socket returns the socket to which bytes of an answer may be written directly; nil where TLS
// or bytes that are held back come first.
func (cl *Client) Socket() *socket.Conn {
	if c, ok := cl.Conn.(*socket.Conn); ok && !cl.writes.holding && cl.writes.buffer == nil {
		return c
	}
	return nil
}

// NetConn returns the TCP connection.
func (cl *Client) NetConn() net.Conn { return cl.tcp }
