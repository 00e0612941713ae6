package testkit

import (
	"net"
	"testing"
)

// TCPPair returns both ends of a connection on loopback, which are closed when the test ends.
func TCPPair(tb testing.TB) (client, server *net.TCPConn) {
	tb.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if client, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	for { // another process's router may still look for a worker at the port
		if server, err = l.AcceptTCP(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { server.Close() })
		if server.RemoteAddr().String() == client.LocalAddr().String() {
			return client, server
		}
	}
}
