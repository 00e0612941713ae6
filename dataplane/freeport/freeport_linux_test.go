package freeport

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHeldPort: a held port is nobody else's, and its owner listens there again and again.
func TestHeldPort(t *testing.T) {
	addr, release, err := Hold()
	require.NoError(t, err)
	port := netip.MustParseAddrPort(addr).Port()
	for range 3 {
		_, err = hold(port)
		require.ErrorIs(t, err, unix.EADDRINUSE, "it is held")
		_, err = net.Dial("tcp", addr)
		require.ErrorIs(t, err, unix.ECONNREFUSED, "nobody listens")
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		_, err = net.Listen("tcp", addr)
		require.ErrorIs(t, err, unix.EADDRINUSE, "a listener has it")
		client, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		server, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, server.Close()) // its end of the connection stays behind for a minute
		require.NoError(t, l.Close())
		require.NoError(t, client.Close())
	}
	release()
	release()
}

// TestAnyPortIsNoHeldOne: where a held port is the only one of the kernel's range, a listener and a
// connection that ask for any port get none.
func TestAnyPortIsNoHeldOne(t *testing.T) {
	var port uint16
	var release func()
	require.Eventually(t, func() bool { // until no other process takes it meanwhile
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		port = l.Addr().(*net.TCPAddr).AddrPort().Port()
		release, err = hold(port)
		return err == nil
	}, time.Minute, time.Millisecond)
	only := func(_, _ string, conn syscall.RawConn) error {
		var refused error
		err := conn.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, int(port)<<16|int(port))
		})
		return errors.Join(err, refused)
	}
	listen := net.ListenConfig{Control: only}
	_, err := listen.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("Linux before 6.3 has no ranges of a socket")
	}
	require.ErrorIs(t, err, unix.EADDRINUSE)
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	dial := net.Dialer{Control: only}
	_, err = dial.DialContext(t.Context(), "tcp4", server.Addr().String())
	require.ErrorIs(t, err, unix.EADDRNOTAVAIL)
	release()
	var conn net.Conn
	require.Eventually(t, func() bool { // unless another process has it first
		conn, err = dial.DialContext(t.Context(), "tcp4", server.Addr().String())
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, conn.Close())
}
