package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// dialer makes the connections of one worker's probes.
type dialer struct {
	end     context.Context //nolint:containedctx // of the monitor; it closes them
	tls     *tls.Config     // nil for plain connections
	timeout time.Duration   // of a dial, TLS included
	connect func(ctx context.Context, network, addr string) (net.Conn, error)
	watch   *connWatch // nil: the connections are not watched between requests
	// foreign, unless it is nil, is set where the first bytes are not HTTP's. Under TLS they are
	// not visible.
	foreign *atomic.Bool
	// The error of the last read, as far as TLS knows it: fasthttp reports a closed connection and
	// drops the worker's reason.
	failure atomic.Pointer[error]
}

// tlsConn is TLS over a connection.
type tlsConn struct {
	*tls.Conn
	failure *atomic.Pointer[error]
}

// Read implements net.Conn.
func (s tlsConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failure.Store(&err)
	}
	return n, err
}

// dial connects, and performs the TLS handshake in place of fasthttp: its errors do not name the
// cause.
func (d *dialer) dial(addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.end, d.timeout)
	defer cancel()
	conn, err := d.connect(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if d.watch != nil {
		conn = d.watch.watch(conn, d.tls != nil)
	}
	b := &boundConn{Conn: conn, foreign: d.foreign, free: context.AfterFunc(d.end, func() { _ = conn.Close() })}
	if d.tls == nil {
		return b, nil
	}
	b.heard = true // by crypto/tls
	s := tlsConn{tls.Client(b, d.tls), &d.failure}
	if err := s.HandshakeContext(ctx); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("cannot begin TLS: %w", tlsconfig.Explain(err))
	}
	return s, nil
}

// boundConn is a connection that a context closes.
type boundConn struct {
	net.Conn
	free    func() bool // of the context, which else would keep every connection that ever was
	foreign *atomic.Bool
	heard   bool // something was read
}

// Read detects a server that speaks TLS or another protocol where HTTP was expected by its first
// bytes.
func (b *boundConn) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if !b.heard && n > 0 {
		b.heard = true
		if want := "HTTP/"[:min(n, 5)]; b.foreign != nil && string(p[:len(want)]) != want {
			b.foreign.Store(true)
			return 0, errForeign
		}
		if tlsconfig.IsRecord(p[:n]) {
			return 0, tlsconfig.ErrTLS
		}
	}
	return n, err
}

// Close implements net.Conn.
func (b *boundConn) Close() error {
	b.free()
	return b.Conn.Close()
}

// connWatch watches the kept connection of a prober between requests. When a process dies, its
// kernel closes the connection at once: hundreds of milliseconds before the next probe, and also
// when another process listens by then.
type connWatch struct {
	begun func(net.Addr) // a connection was made
	ended func()         // the connection ended between two requests
	count atomic.Uint64  // connections that were made
	busy  atomic.Bool    // a request is under way: its sender sees how the connection ends
}

// number returns which connection it is; 0 is none yet.
func (l *connWatch) number() uint64 { return l.count.Load() }

func (l *connWatch) use(on bool) {
	if l != nil {
		l.busy.Store(on)
	}
}

// watch reads from conn on a goroutine that ends with it. The result returns the bytes.
func (l *connWatch) watch(conn net.Conn, encrypted bool) net.Conn {
	l.count.Add(1)
	l.begun(conn.RemoteAddr())
	near, far := net.Pipe()
	p := &watchedConn{Conn: conn, near: near}
	go p.pump(far, func() bool { return !encrypted && !l.busy.Load() }, func() {
		if !l.busy.Load() {
			l.ended()
		}
	})
	return p
}

// watchedConn is a connection that a goroutine reads from.
type watchedConn struct {
	net.Conn
	near   net.Conn
	closed atomic.Bool
	once   sync.Once
	failed atomic.Pointer[error] // the end, where it is not io.EOF
}

// pumpBytes is read at once: answers to probes have a few hundred bytes, a description 40 KB.
const pumpBytes = 4 << 10

// pump carries bytes to far. Bytes that come while unasked is true answer no request: some
// servers send a 408 before they close.
func (p *watchedConn) pump(far net.Conn, unasked func() bool, ended func()) {
	buf := make([]byte, pumpBytes)
	for {
		n, err := p.Conn.Read(buf)
		if n > 0 && unasked() {
			err = io.EOF
			_ = p.Conn.Close()
		} else if n > 0 {
			if _, gone := far.Write(buf[:n]); gone != nil {
				return // closed on this side
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			p.failed.Store(&err)
		}
		_ = far.Close()
		if !p.closed.Load() {
			ended()
		}
		return
	}
}

// Read implements net.Conn.
func (p *watchedConn) Read(b []byte) (int, error) {
	n, err := p.near.Read(b)
	switch {
	case errors.Is(err, io.ErrClosedPipe):
		err = net.ErrClosed
	case errors.Is(err, io.EOF):
		if failed := p.failed.Load(); failed != nil {
			err = *failed
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (p *watchedConn) SetDeadline(t time.Time) error {
	return errors.Join(p.near.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (p *watchedConn) SetReadDeadline(t time.Time) error { return p.near.SetReadDeadline(t) }

// Close implements net.Conn.
func (p *watchedConn) Close() (err error) {
	p.once.Do(func() {
		p.closed.Store(true)
		_ = p.near.Close()
		err = p.Conn.Close()
	})
	return err
}
