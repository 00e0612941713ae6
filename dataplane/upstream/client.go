package upstream

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// What a connection does. A drain closes those that wait.
const (
	clientWaits  int32 = iota // for a request
	clientServes              // a request has begun
	clientEnds                // it was closed
)

// parkAfter is how long fasthttp, with its buffers, waits for the next request before the connection
// goes on waiting without.
const parkAfter = 20 * time.Millisecond

// Client is the connection of a client. A nil Client watches nothing, and all its methods for
// requests may be called.
type Client struct {
	net.Conn // a socket, or a session over it
	s        *Server
	reg      registration
	tcp      net.Conn    // below Conn, which reads and writes it
	silent   atomic.Bool // nothing was read yet
	state    atomic.Int32
	once     sync.Once // closes it

	// Of the goroutine that serves the connection.
	want    time.Time // when the read ends; zero is never
	armed   time.Time // the deadline that the poller knows
	arrival arrival
	ahead   []byte // read and not asked for yet, in room
	room    *aheadBuffer
	idle    bool // fasthttp waits for the next request
	parked  bool // and has given the connection back
	lingers bool // the client has to see an answer to a request that was not read
	readErr error
	body    []byte // of the request, in memory
	memory  *memory
	coding  coding
	holding bool   // between hold and unhold
	held    []byte // written in between, in keep unless it outgrew it
	keep    *aheadBuffer

	mu     sync.Mutex
	gone   bool      // guarded by mu
	active *Canceler // guarded by mu; of the request being served
}

// ClientOf returns the Client that a request came over; nil if nc is not a Server's connection.
func ClientOf(nc net.Conn) *Client {
	cl, _ := nc.(*Client)
	return cl
}

// serve serves the connection until it ends.
func (cl *Client) serve() {
	defer cl.close()
	if s, ok := cl.Conn.(*session); ok && !cl.handshake(s) {
		return
	}
	for cl.awaitRequest() {
		cl.parked = false
		_ = cl.s.http.ServeConn(cl) // which has answered, or cannot
		cl.dropBody()
		if !cl.parked {
			return
		}
	}
}

// awaitRequest waits without a buffer until a request begins.
func (cl *Client) awaitRequest() bool {
	limit := cl.s.cfg.Idle
	if cl.silent.Load() {
		limit = silentTime
	}
	cl.want = time.Now().Add(limit)
	if _, err := cl.receive(nil); err != nil || !cl.begin() {
		return false
	}
	if c := cl.ahead[0]; !nameByte[c] && c != '\r' && c != '\n' { // it may never say where it ends
		cl.refuseBeginning()
		return false
	}
	return true
}

// begin notes that a request has begun; false: the connection was closed before.
func (cl *Client) begin() bool {
	cl.idle = false
	cl.silent.Store(false)
	return cl.state.CompareAndSwap(clientWaits, clientServes)
}

// clientState is fasthttp.Server.ConnState.
func clientState(nc net.Conn, state fasthttp.ConnState) {
	cl := ClientOf(nc)
	switch {
	case cl == nil:
	case state == fasthttp.StateIdle:
		cl.dropBody()
		cl.idle, cl.arrival = true, arrival{}
		cl.state.CompareAndSwap(clientServes, clientWaits)
	case state == fasthttp.StateActive && cl.idle: // its bytes came with the last one's
		cl.begin()
	}
}

// refuseBeginning answers bytes that no request begins with.
func (cl *Client) refuseBeginning() {
	err := errNoRequest
	if tlsconfig.IsRecord(cl.ahead) {
		err = errTLSClient
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(cl, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	cl.s.refuse(cl, ctx, err)
	_, _ = ctx.Response.WriteTo(cl)
}

// endWait closes the connection if it waits for a request.
func (cl *Client) endWait() {
	if cl.state.CompareAndSwap(clientWaits, clientEnds) {
		if s, ok := cl.Conn.(*session); ok {
			s.wire.hasty.Store(true)
		}
		_ = cl.Conn.Close()
	}
}

// cut closes the connection at once.
func (cl *Client) cut() {
	cl.state.Store(clientEnds)
	_ = cl.tcp.Close()
}

// Close is for fasthttp, which is done with the connection: serve closes it where it was not parked.
func (cl *Client) Close() error { return cl.flush() }

// close closes the connection, which also takes it out of the Watcher's epoll.
func (cl *Client) close() {
	cl.once.Do(func() {
		_ = cl.flush()
		if cl.lingers {
			cl.linger()
		}
		cl.state.Store(clientEnds)
		cl.s.cfg.Watcher.forget(cl.reg)
		_ = cl.Conn.Close()
		cl.drop(len(cl.ahead))
		cl.s.forget(cl)
	})
}

// Limits of linger: a client may still send so much of a body that was refused.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 20
)

// linger reads on until the client has seen the answer to a request that was not read to its end.
// Closing a connection with unread bytes resets it, and a reset discards the answer on its way: people
// would see "connection reset" where they should see a 413.
func (cl *Client) linger() {
	if cl.SetDeadline(time.Now().Add(lingerTime)) != nil || cl.closeWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(cl.Conn, lingerBytes)) // ends with the client, or by the deadline
}

// closeWrite tells the client that nothing more comes.
func (cl *Client) closeWrite() error {
	for _, c := range []net.Conn{cl.Conn, cl.tcp} {
		if c, ok := c.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection below.
func (cl *Client) NetConn() net.Conn { return cl.tcp }

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
