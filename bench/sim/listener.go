package sim

import (
	"net"
	"sync"
)

// listener tracks its connections, so that a crash can reset them all.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns map[*conn]struct{}
	dead  bool // Accept nothing more.
}

func newListener(ln net.Listener) *listener {
	return &listener{Listener: ln, conns: make(map[*conn]struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, owner: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		_ = c.reset()
		return nil, net.ErrClosed
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// kill closes the listener and resets every connection, as the kernel does for a killed process
// with unread data.
func (l *listener) kill() {
	_ = l.Close()
	l.mu.Lock()
	l.dead = true
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		if !c.survives {
			conns = append(conns, c)
		}
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.reset()
	}
}

// conn is a connection tracked by its listener.
type conn struct {
	net.Conn
	owner    *listener
	survives bool // guarded by owner.mu
}

// surviveCrash lets c outlive a crash, so that the client that orders one receives its answer.
func (c *conn) surviveCrash() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.survives = true
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// resetConn ends c like a killed process.
func resetConn(c net.Conn) {
	if c, ok := c.(*conn); ok {
		_ = c.reset()
	}
}

// reset makes the peer see ECONNRESET instead of an orderly end.
func (c *conn) reset() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	return c.Conn.Close()
}
