package upstream

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listen returns a listener whose connections are watched from accept to close, so that a request costs no system call to
// be guarded: see ClientOf. ListenTLS adds TLS.
//
// Closing it also closes, after a moment, the connections that have not sent a byte: fasthttp takes them for busy, and its
// shutdown would wait for what a client's connection pool opened ahead.
func (w *Watcher) Listen(ln net.Listener) net.Listener {
	l := &watchedListener{Listener: ln, w: w, waiting: make(map[*Client]struct{}), left: make(chan struct{}, 1), closed: make(chan struct{})}
	l.spare.New = func() any { return new(aheadBuffer) }
	return l
}

type watchedListener struct {
	net.Listener
	w     *Watcher
	spare sync.Pool   // *aheadBuffer
	plain *Plain      // nil: fasthttp gets every request
	tls   *tls.Config // nil: plain connections
	most  int         // with plain: Plain.MaxClients

	left   chan struct{} // a connection has ended
	closed chan struct{}
	once   sync.Once // closes closed

	mu      sync.Mutex
	waiting map[*Client]struct{} // guarded by mu; connections that have not sent a byte; with plain, all that are open
}

// silentGrace is for a first request that is on its way while the listener closes.
const silentGrace = 200 * time.Millisecond

// acceptPause is for the process to get descriptors back when it ran out of them.
const acceptPause = 50 * time.Millisecond

// Accept waits for the next client. It outlives what fasthttp would end the whole server for: running out of descriptors,
// and clients that are gone before they are accepted.
func (l *watchedListener) Accept() (net.Conn, error) {
	if err := l.awaitRoom(); err != nil {
		return nil, err
	}
	nc, err := l.Listener.Accept()
	for passing(err) {
		time.Sleep(acceptPause) //nolint:forbidigo // Nothing tells when a descriptor is free again.
		nc, err = l.Listener.Accept()
	}
	if err != nil {
		return nil, err
	}
	c := &Client{Conn: newSocket(nc), tcp: nc, w: l.w, l: l}
	if c.reg, err = l.w.register(nc, c); err != nil {
		// The system's limit on watches, or a Watcher that was closed. An error from Accept would end the whole server; a
		// client that is not watched is still noticed when it is written to.
		return nc, nil //nolint:nilerr // See above.
	}
	if l.tls != nil {
		c.Conn = newSession(c.Conn, l.tls)
	}
	c.silent.Store(true)
	l.mu.Lock()
	l.waiting[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

// awaitRoom waits until there are fewer connections than there may be.
func (l *watchedListener) awaitRoom() error {
	for told := false; l.most > 0; told = true {
		l.mu.Lock()
		n := len(l.waiting)
		l.mu.Unlock()
		if n < l.most {
			return nil
		}
		if !told && l.plain.Full != nil {
			l.plain.Full()
		}
		select {
		case <-l.left:
		case <-l.closed:
			return net.ErrClosed
		}
	}
	return nil
}

// passing tells whether an error of Accept is about a moment and not about the listener.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Close ends Accept.
func (l *watchedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	time.AfterFunc(silentGrace, func() {
		l.mu.Lock()
		conns := slices.Collect(maps.Keys(l.waiting))
		l.mu.Unlock()
		for _, c := range conns {
			if c.silent.Load() || c.turn.Load() != turnTheirs {
				_ = c.Close()
			}
		}
	})
	return l.Listener.Close()
}

// heard notes that a connection is no longer silent.
func (l *watchedListener) heard(c *Client) {
	if c.silent.Swap(false) && l.plain == nil {
		l.forget(c)
	}
}

func (l *watchedListener) forget(c *Client) {
	l.mu.Lock()
	delete(l.waiting, c)
	l.mu.Unlock()
	select {
	case l.left <- struct{}{}:
	default:
	}
}

// Client is a watched client connection. A nil Client watches nothing, and all its methods for requests may be called.
type Client struct {
	net.Conn // a socket, or a session over it
	w        *Watcher
	l        *watchedListener
	reg      registration
	tcp      net.Conn    // below Conn, which reads and writes it
	silent   atomic.Bool // nothing was read yet
	turn     atomic.Int32

	// Of the goroutine that serves the connection.
	want    time.Time // the read deadline asked for; zero is none
	armed   time.Time // the one that the poller knows
	arrival arrival
	ahead   []byte // read and not asked for yet, in room unless it outgrew it
	room    *aheadBuffer
	theirs  int    // of ahead, what belongs to the request that fasthttp reads; 0: it may have all
	begun   bool   // a request was read
	between bool   // fasthttp is at no request
	holding bool   // between hold and unhold
	held    []byte // written in between, in keep unless it outgrew it
	keep    *aheadBuffer

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
func (cl *Client) NetConn() net.Conn { return cl.tcp }

// CloseWrite tells the client that nothing more comes.
func (cl *Client) CloseWrite() error {
	for _, c := range []net.Conn{cl.Conn, cl.tcp} {
		if c, ok := c.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
	}
	return errors.ErrUnsupported
}

// Close closes the connection, which also takes it out of the Watcher's epoll. Where a plain request is being answered, it ends with the
// answer.
func (cl *Client) Close() error {
	turn, may := cl.endTurn()
	if !may {
		return nil
	}
	if s, ok := cl.Conn.(*session); ok && turn == turnNobody {
		s.wire.hasty.Store(true)
	}
	cl.w.forget(cl.reg)
	cl.silent.Store(false)
	cl.l.forget(cl)
	return cl.Conn.Close()
}
