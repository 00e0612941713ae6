package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// keepAlive finds workers whose host vanished, which send no FIN: a silent wait for a header
// ends in about 11 s (a probe after 5 s, then three, 2 s apart), where Go's default needs 150.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// dialing lets a Canceler reach a dial.
type dialing struct{ cancel context.CancelFunc }

func (d *dialing) abort() { d.cancel() }

// dial opens a connection to a worker.
func (t *Transport) dial(c *Canceler, to *Target) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.DialTimeout)
	defer cancel()
	if err := c.bind(&dialing{cancel}); err != nil {
		return nil, err
	}
	cn, err := t.open(ctx, to)
	canceled := c.unbind()
	switch {
	case canceled:
		if cn != nil {
			cn.abort()
		}
		return nil, ErrUnsent
	case err != nil:
		return nil, dialError(to.Addr, err)
	}
	return cn, nil
}

// dialError names a failed dial: ErrDial and ErrShortage say that nothing was sent, a timeout
// included.
func dialError(addr string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		// Whichever is first.
		return fmt.Errorf("cannot dial %s: %w in time", addr, ErrDial)
	}
	kind := ErrDial
	if socket.Shortage(err) {
		kind = ErrShortage
	}
	return fmt.Errorf("cannot dial %s: %w: %w", addr, kind, err)
}

func (t *Transport) open(ctx context.Context, to *Target) (*conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: t.cfg.Control}
	tcp, err := d.DialContext(ctx, "tcp", to.Addr)
	if err != nil {
		return nil, err
	}
	if to.TLS == nil {
		return newConn(tcp, tcp, to, &t.readers), nil
	}
	session := tls.Client(socket.New(tcp), clientTLS(to))
	if err := session.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, fmt.Errorf("cannot begin TLS: %w", tlsconfig.Explain(err))
	}
	return newConn(session, tcp, to, &t.readers), nil
}

// Dialer returns net.Dialer's DialContext for probes of an idle process: reading and writing the
// connection do not wake the runtime's monitor thread (see package socket). One goroutine may
// read it while another one writes it. control may refuse an address; nil takes all.
func Dialer(control Control) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Control: control}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return socket.New(nc), nil
	}
}

// clientTLS adds the name to verify, as net/http does.
func clientTLS(to *Target) *tls.Config {
	if to.TLS.ServerName != "" || to.TLS.InsecureSkipVerify {
		return to.TLS
	}
	cfg := to.TLS.Clone()
	if host, _, err := net.SplitHostPort(to.Addr); err == nil {
		cfg.ServerName = host
	}
	return cfg
}
