package proxy

import (
	"errors"
	"os"
	"time"
)

// maxHeld is the longest last piece that is worth a copy: it holds the last events of a stream.
const maxHeld = 1 << 10

// Read reads from the client.
func (cl *Client) Read(p []byte) (int, error) {
	for {
		n, err := cl.Conn.Read(p)
		if n > 0 && cl.silent.Load() {
			cl.l.heard(cl)
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !cl.early() {
			return n, err
		}
		if err := cl.arm(cl.want); err != nil {
			return 0, err
		}
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

// early reports whether the deadline asked for has not passed.
func (cl *Client) early() bool { return cl.want.IsZero() || time.Now().Before(cl.want) }

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

// Write writes to the client.
func (cl *Client) Write(p []byte) (int, error) {
	if cl.holding {
		cl.held = append(cl.held, p...)
		return len(p), nil
	}
	if len(cl.held) == 0 {
		return cl.Conn.Write(p)
	}
	cl.held = append(cl.held, p...)
	_, err := cl.Conn.Write(cl.held)
	cl.held = cl.held[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
