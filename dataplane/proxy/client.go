package proxy

import (
	"net"
	"sync"
)

// Listen returns a listener whose connections are watched from accept to close, so that a request costs no system call to
// be guarded: see ClientOf. TLS goes on top of it (tls.NewListener, or fasthttp's ServeTLS).
func (w *Watcher) Listen(ln net.Listener) net.Listener { return &watchedListener{ln, w} }

type watchedListener struct {
	net.Listener
	w *Watcher
}

// Accept waits for the next client.
func (l *watchedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Client{Conn: nc, w: l.w}
	if c.reg, err = l.w.register(nc, c); err != nil {
		// The system's limit on watches, or a Watcher that was closed. An error from Accept would end the whole server; a
		// client that is not watched is still noticed when it is written to.
		return nc, nil //nolint:nilerr // See above.
	}
	return c, nil
}

// Client is a watched client connection. A nil Client watches nothing, and all its methods for requests may be called.
type Client struct {
	net.Conn
	w   *Watcher
	reg registration

	mu     sync.Mutex
	gone   bool      // guarded by mu
	active *Canceler // guarded by mu; of the request being served
}

// ClientOf finds the Client below nc; nil if nc is not from a Watcher's listener.
func ClientOf(nc net.Conn) *Client {
	for {
		switch c := nc.(type) {
		case *Client:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

// Guard has c canceled when the client leaves (it closes, resets, or closes its sending side), at once if it already has.
// A connection serves one request at a time: the next Guard replaces the last.
func (cl *Client) Guard(c *Canceler) {
	if cl == nil {
		return
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.active = c
	if cl.gone {
		c.Cancel()
	}
}

// Release ends Guard. When it returns, nobody is canceling and nobody will; the Canceler may be reset for another request.
func (cl *Client) Release() {
	if cl == nil {
		return
	}
	cl.mu.Lock()
	cl.active = nil
	cl.mu.Unlock()
}

// Gone tells whether the client has left.
func (cl *Client) Gone() bool {
	if cl == nil {
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.gone
}

// left cancels the request being served.
func (cl *Client) left() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.gone = true
	if cl.active != nil {
		cl.active.Cancel()
	}
}

// NetConn returns the connection below.
func (cl *Client) NetConn() net.Conn { return cl.Conn }

// Close closes the connection, which also takes it out of the Watcher's epoll.
func (cl *Client) Close() error {
	cl.w.forget(cl.reg)
	return cl.Conn.Close()
}
