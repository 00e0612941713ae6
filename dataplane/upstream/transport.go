package upstream

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// defaultIdleTimeout stays below the 5 s after which uvicorn, SGLang's server, closes an
	// idle connection.
	defaultIdleTimeout = 4 * time.Second
	// defaultDialTimeout covers one lost SYN (1 s RTO); a worker in the same rack answers one
	// within 1 ms.
	defaultDialTimeout = 1500 * time.Millisecond
	// defaultMaxIdle is for the few hundred requests that SGLang runs at once.
	defaultMaxIdle = 256
	// defaultReadBuffer holds several SSE chunks of one scheduler step; headers of workers have
	// 200 bytes.
	defaultReadBuffer = 16 << 10
)

// Target names one worker. Equal ones share connections.
type Target struct {
	Addr string      // host:port to dial
	TLS  *tls.Config // nil for plain TCP; ServerName is taken from Addr if empty
}

// host returns the Host header, without the scheme's usual port. Ingresses in front of workers may
// know their names without a port only, as browsers, curl and the probes send them.
func (t *Target) host() string {
	if t.TLS == nil {
		return strings.TrimSuffix(t.Addr, ":80")
	}
	return strings.TrimSuffix(t.Addr, ":443")
}

// Config sets the limits of a Transport. Zero values mean the defaults.
type Config struct {
	DialTimeout      time.Duration // TCP and TLS together; default 1.5 s
	IdleTimeout      time.Duration // a kept-alive connection is not reused after this; default 4 s
	MaxIdlePerTarget int           // default 256; negative keeps none
	ReadBuffer       int           // bytes per request in flight; default 16 KiB
	// Of an answer's head, each interim one apart; default ReadBuffer.
	MaxHeaderBytes int
	Control        Control // may refuse an address; nil takes all
}

// Control is net.Dialer's: it is called with each resolved address before a connection begins.
type Control = func(network, address string, raw syscall.RawConn) error

// Transport keeps connections to workers and sends requests over them.
type Transport struct {
	cfg     Config
	readers sync.Pool // *bufio.Reader of cfg.ReadBuffer; an idle connection holds none

	responses sync.Pool // *Response

	mu     sync.RWMutex
	idle   map[Target]*idleList // guarded by mu; Sweep removes those of targets without requests
	closed bool                 // guarded by mu
}

// NewTransport returns a Transport with cfg's limits.
func NewTransport(cfg Config) *Transport {
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = defaultIdleTimeout
	}
	if cfg.MaxIdlePerTarget == 0 {
		cfg.MaxIdlePerTarget = defaultMaxIdle
	}
	if cfg.ReadBuffer <= 0 {
		cfg.ReadBuffer = defaultReadBuffer
	}
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = cfg.ReadBuffer
	}
	// The header parser needs the whole header in the buffer.
	size := max(cfg.ReadBuffer, cfg.MaxHeaderBytes)
	t := &Transport{cfg: cfg, idle: make(map[Target]*idleList)}
	t.readers.New = func() any { return bufio.NewReaderSize(nil, size) }
	return t
}

// Close closes the idle connections and refuses new requests. Requests in flight go on; their
// connections end with them.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	lists := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, l := range lists {
		l.close()
	}
	return nil
}

// Renew closes the connections to addr, whose name leads elsewhere by now: idle ones at once, and
// those in use with their requests.
func (t *Transport) Renew(addr string) {
	for _, l := range t.lists(addr) {
		l.renewed.Add(1)
		l.drop(time.Time{})
	}
}

// Sweep closes the connections that have been idle for too long. Requests to a target do this
// on their own; one without traffic keeps its dead sockets (CLOSE_WAIT) until the next Sweep,
// due every few seconds.
func (t *Transport) Sweep() {
	before := time.Now().Add(-t.cfg.IdleTimeout)
	for _, l := range t.lists("") {
		l.drop(before)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.idle, func(_ Target, l *idleList) bool { return l.prune() })
}

// Idle returns the number of idle connections to addr, or to all targets if addr is empty.
func (t *Transport) Idle(addr string) (n int) {
	for _, l := range t.lists(addr) {
		n += l.len()
	}
	return n
}

// lists returns the idle lists of addr, or all if addr is empty.
func (t *Transport) lists(addr string) []*idleList {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []*idleList
	for to, l := range t.idle {
		if addr == "" || to.Addr == addr {
			out = append(out, l)
		}
	}
	return out
}

// list returns the idle list of a target, nil once the Transport is closed.
func (t *Transport) list(to *Target) *idleList {
	// Fast path: the target is known.
	t.mu.RLock()
	l := t.idle[*to]
	t.mu.RUnlock()
	if l != nil {
		return l
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	if t.idle[*to] == nil {
		t.idle[*to] = &idleList{}
	}
	return t.idle[*to]
}

// connect returns an idle connection to a worker that looks alive, or a new one; fresh skips the
// idle ones. now may be zero.
func (t *Transport) connect(c *Canceler, to *Target, fresh bool, now time.Time) (*conn, error) {
	l := t.list(to)
	if l == nil {
		return nil, ErrClosed
	}
	if !fresh {
		if now.IsZero() {
			now = time.Now()
		}
		for cn := l.get(now.Add(-t.cfg.IdleTimeout)); cn != nil; cn = l.get(now.Add(-t.cfg.IdleTimeout)) {
			idle := now.Sub(cn.idleSince)
			if idle < staleCheckAfter || cn.alive() {
				cn.reused, cn.in.now = true, now
				return cn, nil
			}
			cn.abort()
		}
	}
	renewed := l.renewed.Load()
	cn, err := t.dial(c, to)
	if err == nil {
		cn.renewed = renewed
	}
	return cn, err
}

// keep puts cn among the idle connections, or closes it if there is no room.
func (t *Transport) keep(cn *conn) {
	cn.in.release()
	l := t.list(&cn.to)
	if l == nil || t.cfg.MaxIdlePerTarget < 0 {
		cn.abort()
		return
	}
	now := cn.in.clock()
	cn.idleSince = now
	if dead := l.put(cn, now.Add(-t.cfg.IdleTimeout), t.cfg.MaxIdlePerTarget); dead != nil {
		dead.abort()
	}
}

// discard closes cn for good.
func (t *Transport) discard(cn *conn) {
	cn.abort()
	cn.in.release()
}

// Do sends req and returns as soon as the header of the final answer is parsed. c may be nil;
// else Cancel ends the request at any time until the Response is closed. A kept-alive
// connection that turns out to be dead before any byte of an answer is replaced by a new one,
// once, unless req.Once leaves that to the caller. Any error means that nothing is left open.
func (t *Transport) Do(c *Canceler, req *Request) (*Response, error) {
	var before error
	for fresh := req.Fresh; ; fresh = true {
		cn, err := t.connect(c, &req.Target, fresh, req.Now)
		if err != nil {
			if before != nil && errors.Is(err, ErrDial) {
				err = before // the worker may have died of the request
			}
			return nil, err
		}
		resp, err := t.roundTrip(c, cn, req)
		if err == nil {
			return resp, nil
		}
		if fresh || !cn.reused || !errors.Is(err, ErrNoResponse) {
			return nil, err
		}
		if req.Once {
			return nil, fmt.Errorf("%w: %w", ErrStale, err)
		}
		before = err
	}
}

// roundTrip sends req over cn and reads the header of the answer. It owns cn: after a failure
// the connection is gone.
func (t *Transport) roundTrip(c *Canceler, cn *conn, req *Request) (*Response, error) {
	var err error
	if cn.out.head, err = req.appendHead(cn.out.head[:0]); err != nil {
		t.discard(cn)
		return nil, err
	}
	if err := c.bind(cn); err != nil {
		t.discard(cn)
		return nil, err
	}
	r := t.acquire(c, cn)
	cn.send(req.Body)
	err = r.readHeader(req)
	if err == nil {
		return r, nil
	}
	// Close first: it wakes the writer, if one is still at it.
	cn.abort()
	cn.out.finish()
	if c.unbind() {
		err = ErrCanceled
	}
	t.discard(cn)
	t.release(r)
	return nil, fmt.Errorf("cannot get response of %s: %w", req.Target.Addr, err)
}

// acquire readies a Response.
func (t *Transport) acquire(c *Canceler, cn *conn) *Response {
	r, ok := t.responses.Get().(*Response)
	if !ok {
		r = &Response{t: t}
		// A body without a type stays one: fasthttp would add text/plain.
		r.Header.SetNoDefaultContentType(true)
	}
	r.c, r.cn, r.err = c, cn, nil
	return r
}

// release makes a Response available to other requests.
func (t *Transport) release(r *Response) {
	if z, ok := r.change.(*compressor); ok {
		z.release()
	}
	r.c, r.cn, r.ahead, r.change = nil, nil, nil, nil
	r.stream = Stream{}
	r.events.reset()
	t.responses.Put(r)
}
