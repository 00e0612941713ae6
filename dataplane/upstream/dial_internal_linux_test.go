package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// TestDialer: connections of Dialer read and write as sockets do, and close.
func TestDialer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nc, err := Dialer(nil)(context.Background(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	require.IsType(t, &socket.Conn{}, nc, "its calls would wake the runtime's monitor")
	far, err := ln.Accept()
	require.NoError(t, err)
	_, err = io.WriteString(nc, "ping")
	require.NoError(t, err)
	got := make([]byte, len("ping"))
	_, err = io.ReadFull(far, got)
	require.NoError(t, err)
	_, err = far.Write(got)
	require.NoError(t, err)
	require.NoError(t, far.Close())
	back, err := io.ReadAll(nc)
	require.NoError(t, err)
	require.Equal(t, "ping", string(back))
	require.NoError(t, nc.Close())

	addr := ln.Addr().String()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Dialer(nil)(ended, "tcp", addr)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ln.Close())
}

// TestShortage: a dial that fails for lack of something here says nothing of the worker.
func TestShortage(t *testing.T) {
	for refusal, here := range map[error]bool{syscall.EMFILE: true, syscall.EADDRNOTAVAIL: true, syscall.ECONNREFUSED: false, syscall.EPERM: false} {
		tr := NewTransport(Config{DialTimeout: time.Minute, Control: func(string, string, syscall.RawConn) error { return os.NewSyscallError("socket", refusal) }})
		_, err := tr.Do(nil, &Request{Target: Target{Addr: "127.0.0.1:9"}, Method: []byte("GET"), Path: []byte("/")})
		require.ErrorIs(t, err, ErrDial)
		require.ErrorIs(t, err, refusal)
		require.Equal(t, here, errors.Is(err, ErrShortage), refusal)
		tr.Close()
	}
}
