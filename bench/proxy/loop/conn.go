package loop

import (
	"io"
	"slices"
)

// Handler receives the events of a connection.
type Handler interface {
	// Ready says that a connection that was dialled stands.
	Ready(c *Conn)
	// Data gets the unused bytes received so far and returns the number used; the rest comes again,
	// with later bytes.
	Data(c *Conn, b []byte) int
	// Closed says that the connection is gone, by no act of this end: io.EOF when the peer closed
	// it.
	Closed(c *Conn, err error)
}

// keepSize is how much memory for leftovers a connection may keep while it has none.
const keepSize = 1 << 20

// Conn is a connection of a loop.
type Conn struct {
	loop    *Loop
	fd      int
	handler Handler
	in      []byte // received and not used by Data
	need    int    // bytes that the next message takes, when they are known
	out     []byte // waits for the socket
	copied  bool   // out is memory of this connection

	connecting, closed bool
}

// Need announces that Data wants n bytes at once, counted from the first that it leaves unused:
// they are read into one piece of memory, without copies of it.
func (c *Conn) Need(n int) { c.need = n }

// Pending reports whether bytes wait for the socket to take them.
func (c *Conn) Pending() bool { return len(c.out) > 0 }

// Write sends b and copies the part that the socket does not take now.
func (c *Conn) Write(b []byte) error {
	if !c.copied && len(c.out) > 0 { // of a Send before
		c.out, c.copied = slices.Clone(c.out), true
	}
	rest, err := c.send(b)
	if err == nil && len(rest) > 0 {
		c.out, c.copied = append(c.out, rest...), true
	}
	return err
}

// Send is Write without copies: b must stay as it is until the peer has answered.
func (c *Conn) Send(b []byte) error {
	if len(c.out) > 0 {
		return c.Write(b)
	}
	rest, err := c.send(b)
	if err == nil && len(rest) > 0 {
		c.out, c.copied = rest, false
	}
	return err
}

// send writes to the socket, unless earlier bytes wait.
func (c *Conn) send(b []byte) (rest []byte, err error) {
	if c.closed {
		return nil, ErrClosed
	}
	if len(c.out) > 0 || c.connecting {
		return b, nil
	}
	n, err := trySend(c.fd, b)
	return b[n:], err
}

// Again shows leftovers to Data, for handlers that did not want them before. Not to be called by
// Data itself.
func (c *Conn) Again() {
	if len(c.in) > 0 && !c.closed {
		c.took(c.in, c.show(c.in))
	}
}

// Close closes the connection; its handler is not told.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.loop.conns[c.fd] = nil
	closeFD(c.fd)
	c.in, c.out = nil, nil
}

func (c *Conn) fail(err error) {
	if !c.closed {
		c.Close()
		c.handler.Closed(c, err)
	}
}

func (c *Conn) handle(what uint32) {
	if c.connecting {
		if what&(canWrite|hungUp) == 0 {
			return
		}
		if err := sockError(c.fd); err != nil {
			c.fail(err)
			return
		}
		c.connecting = false
		c.handler.Ready(c)
	}
	if what&canWrite != 0 && !c.closed {
		c.flush()
	}
	if what&(canRead|hungUp) != 0 && !c.closed {
		c.read(what&hungUp != 0)
	}
}

func (c *Conn) flush() {
	if len(c.out) == 0 {
		return
	}
	n, err := trySend(c.fd, c.out)
	if err != nil {
		c.fail(err)
		return
	}
	if c.out = c.out[n:]; len(c.out) == 0 {
		c.out = nil
	}
}

// read reads the available bytes. A read that does not fill its buffer has emptied the socket,
// except that the end of the stream, which is announced, comes after it.
func (c *Conn) read(toEnd bool) {
	for {
		buf := c.loop.shared
		if len(c.in) > 0 || c.need > 0 {
			c.in = slices.Grow(c.in, max(c.need-len(c.in), 4096))
			buf = c.in[len(c.in):cap(c.in)]
		}
		n, again, err := tryReceive(c.fd, buf)
		if again {
			return
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			c.fail(err)
			return
		}
		b := buf[:n]
		if len(c.in) > 0 || c.need > 0 {
			c.in = c.in[:len(c.in)+n]
			b = c.in
		}
		if c.took(b, c.show(b)); c.closed || n < len(buf) && !toEnd {
			return
		}
	}
}

func (c *Conn) show(b []byte) (used int) {
	if len(b) < c.need {
		return 0
	}
	c.need = 0
	return c.handler.Data(c, b)
}

// took keeps the bytes that Data did not use.
func (c *Conn) took(b []byte, used int) {
	if c.closed {
		return
	}
	rest := b[used:]
	if len(rest) == 0 && cap(c.in) > keepSize {
		c.in = nil
		return
	}
	c.in = append(slices.Grow(c.in[:0], max(len(rest), min(c.need, 64<<20))), rest...)
}
