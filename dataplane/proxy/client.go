package proxy

import (
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
// be guarded: see ClientOf. TLS goes on top of it: ListenTLS.
//
// Closing it also closes, after a moment, the connections that have not sent a byte: fasthttp takes them for busy, and its
// shutdown would wait for what a client's connection pool opened ahead.
func (w *Watcher) Listen(ln net.Listener) net.Listener {
	l := &watchedListener{Listener: ln, w: w, silent: make(map[*Client]struct{})}
	l.spare.New = func() any { return new(aheadBuffer) }
	return l
}

type watchedListener struct {
	net.Listener
	w     *Watcher
	spare sync.Pool // *aheadBuffer

	mu     sync.Mutex
	silent map[*Client]struct{} // guarded by mu; connections that have not sent a byte
}

// silentGrace is for a first request that is on its way while the listener closes.
const silentGrace = 200 * time.Millisecond

// acceptPause is for the process to get descriptors back when it ran out of them.
const acceptPause = 50 * time.Millisecond

// Accept waits for the next client. It outlives what fasthttp would end the whole server for: running out of descriptors,
// and clients that are gone before they are accepted.
func (l *watchedListener) Accept() (net.Conn, error) {
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
	c.silent.Store(true)
	l.mu.Lock()
	l.silent[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
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
	time.AfterFunc(silentGrace, func() {
		l.mu.Lock()
		silent := slices.Collect(maps.Keys(l.silent))
		l.mu.Unlock()
		for _, c := range silent {
			_ = c.Close()
		}
	})
	return l.Listener.Close()
}

// heard notes that a connection is no longer silent.
func (l *watchedListener) heard(c *Client) {
	if c.silent.Swap(false) {
		l.mu.Lock()
		delete(l.silent, c)
		l.mu.Unlock()
	}
}

// Client is a watched client connection. A nil Client watches nothing, and all its methods for requests may be called.
type Client struct {
	net.Conn
	w      *Watcher
	l      *watchedListener
	reg    registration
	tcp    net.Conn    // below Conn, which reads and writes it
	silent atomic.Bool // nothing was read yet
	below  bool        // TLS is on top, and does what is to be done with the protocol's bytes

	// Of the goroutine that serves the connection.
	want    time.Time // the read deadline asked for; zero is none
	armed   time.Time // the one that the poller knows
	ahead   []byte    // read and not asked for yet, in room
	room    *aheadBuffer
	begun   bool   // a request was read
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

// Close closes the connection, which also takes it out of the Watcher's epoll.
func (cl *Client) Close() error {
	cl.w.forget(cl.reg)
	cl.l.heard(cl)
	return cl.Conn.Close()
}
