package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// dialer makes the connections of one worker's probes.
type dialer struct {
	end     context.Context // closes them
	tls     *tls.Config     // nil for plain connections
	timeout time.Duration   // of a dial, TLS included
	connect func(ctx context.Context, network, addr string) (net.Conn, error)
	failure *tlsFailure
	watch   *connWatch // nil: the connections are not watched between requests
}

// tlsFailure is the error of the last read, as far as TLS knows it: fasthttp reports a closed
// connection and drops the worker's reason.
type tlsFailure struct{ last atomic.Pointer[error] }

// take returns the failure once.
func (f *tlsFailure) take() error {
	if p := f.last.Swap(nil); p != nil {
		return *p
	}
	return nil
}

// session is TLS over a connection.
type tlsConn struct {
	*tls.Conn
	failure *tlsFailure
}

// Read implements net.Conn.
func (s tlsConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failure.last.Store(&err)
	}
	return n, err
}

// dial connects, and performs the TLS handshake in place of fasthttp, whose errors do not name
// the cause.
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
	b := &boundConn{Conn: conn, free: context.AfterFunc(d.end, func() { _ = conn.Close() })}
	if d.tls == nil {
		return b, nil
	}
	b.heard = true // by crypto/tls
	s := tlsConn{tls.Client(b, d.tls), d.failure}
	if err := s.HandshakeContext(ctx); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("cannot begin TLS: %w", tlsconfig.Explain(err))
	}
	return s, nil
}

// bound is a connection that a context closes.
type boundConn struct {
	net.Conn
	free  func() bool // of the context, which else would keep every connection that ever was
	heard bool        // something was read
}

// Read detects a worker that speaks TLS where HTTP was expected by its first bytes.
func (b *boundConn) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if !b.heard && n > 0 {
		b.heard = true
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
