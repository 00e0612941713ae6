package ingress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/socket"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// States of a connection. A drain closes connections that wait.
const (
	clientWaits  int32 = iota // for a request
	clientServes              // a request has begun
	clientClosed
)

// parkAfter is how long fasthttp, with its buffers, waits for the next request before the
// connection waits on without them.
const parkAfter = 250 * time.Millisecond

// Client is the connection of a client. A nil Client watches nothing; Guard, Release and Gone
// may be called.
type Client struct {
	net.Conn // a socket.Conn, or a session over it
	s        *Server
	watch    uint64      // token of the Watcher; 0: none
	tcp      net.Conn    // below Conn, which reads and writes it
	silent   atomic.Bool // nothing was read yet
	state    atomic.Int32
	place    place

	// Of the goroutine that serves the connection.
	out     sender
	limit   readLimit
	ahead   []byte // read and not asked for yet, in buffer
	buffer  *socket.Buffer
	idle    bool  // fasthttp waits for the next request
	parked  bool  // and has given the connection back
	lingers bool  // the client has to see an answer to a request that was not read
	readErr error // the first one of a body
	lines   headLines
	arrived arrived
	body    body
	writes  heldWrites

	mu     sync.Mutex
	gone   bool     // guarded by mu
	active Canceler // guarded by mu; of the request being served
}

// Canceler ends a request under way. Cancel must not block.
type Canceler interface{ Cancel() }

// ClientOf returns the Client that a request came over, nil if nc is not a Server's connection.
func ClientOf(nc net.Conn) *Client {
	cl, _ := nc.(*Client)
	return cl
}

// serve serves the connection until it ends.
func (cl *Client) serve() {
	defer cl.end()
	if s, ok := cl.Conn.(*session); ok && !s.handshake(cl.s.cfg.HandshakeFailed) {
		return
	}
	for cl.awaitRequest() {
		cl.parked = false
		_ = cl.s.http.ServeConn(cl) // it has answered, or cannot
		cl.body.release()
		if !cl.parked {
			return
		}
	}
}

// awaitRequest waits without a buffer until a request begins.
func (cl *Client) awaitRequest() bool {
	limit, reason := cl.limit.idle, ReasonIdle
	if cl.silent.Load() {
		limit, reason = min(limit, silentTime), ReasonSilent
	}
	cl.limit.wait(time.Now().Add(limit))
	if err := cl.readAhead(); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			cl.s.cfg.Closed(reason)
		}
		return false
	}
	if !cl.begin() {
		return false
	}
	// Bytes that begin no request may never end as one does.
	if c := cl.ahead[0]; nameByte[c] || c == '\r' || c == '\n' {
		return true
	}
	err := errNoMethod
	if tlsconfig.IsRecord(cl.ahead) {
		err = errTLSClient
	}
	cl.s.refuseBeginning(cl, err)
	return false
}

// begin notes that a request has begun; false: the connection was closed before.
func (cl *Client) begin() bool {
	cl.idle, cl.lines, cl.arrived = false, headLines{}, arrived{}
	cl.silent.Store(false)
	return cl.state.CompareAndSwap(clientWaits, clientServes)
}

// noteState is fasthttp.Server.ConnState.
func noteState(nc net.Conn, state fasthttp.ConnState) {
	cl := ClientOf(nc)
	switch {
	case cl == nil:
	case state == fasthttp.StateIdle:
		cl.body.release()
		cl.idle = true
		cl.limit.wait(time.Time{})
		cl.state.CompareAndSwap(clientServes, clientWaits)
	case state == fasthttp.StateActive && cl.idle: // its bytes came with the last request's
		next := cl.arrived.behind()
		cl.begin()
		_ = cl.note(next) // errors are of a body
	}
}

// closeClaimed closes a connection that was claimed.
func (cl *Client) closeClaimed() {
	if s, ok := cl.Conn.(*session); ok {
		s.wire.hurried.Store(true)
	}
	_ = cl.Conn.Close()
}

// cut closes the connection at once.
func (cl *Client) cut() {
	cl.state.Store(clientClosed)
	_ = cl.tcp.Close()
}

// Close tells that fasthttp is done with the connection: serve closes it, unless it is parked.
func (cl *Client) Close() error { return cl.writes.flush() }

// end closes the connection, which also takes it out of the Watcher's epoll.
func (cl *Client) end() {
	_ = cl.Close()
	if cl.lingers {
		cl.linger()
	}
	cl.state.Store(clientClosed)
	cl.s.cfg.Watcher.forget(cl.watch)
	_ = cl.Conn.Close()
	cl.drop(len(cl.ahead))
	cl.s.forget(cl)
}

// Limits of the rest of a refused request that a client may still send.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 20
)

// linger reads on until the client has seen the answer to a request that was not read to its
// end. Closing a connection with unread bytes resets it, and the reset would discard the
// answer: the client would report a reset connection instead of a 413.
func (cl *Client) linger() {
	writer, ok := cl.Conn.(interface{ CloseWrite() error })
	if !ok {
		writer, ok = cl.tcp.(interface{ CloseWrite() error })
	}
	if !ok || cl.SetDeadline(time.Now().Add(lingerTime)) != nil || writer.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(cl.Conn, lingerBytes))
}

// Guard has c canceled when the client leaves (it closes, resets or half-closes the
// connection), at once if it already has. The next Guard replaces the last: a connection serves
// one request at a time.
func (cl *Client) Guard(c Canceler) {
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

// Release ends Guard. When it returns, nobody is canceling and nobody will: the Canceler may
// serve another request.
func (cl *Client) Release() {
	if cl == nil {
		return
	}
	cl.mu.Lock()
	cl.active = nil
	cl.mu.Unlock()
}

// Gone reports whether the client has left.
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
