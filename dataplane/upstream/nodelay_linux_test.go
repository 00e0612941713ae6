package upstream

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoDelay: small pieces leave at once, to workers and to clients.
func TestNoDelay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	watched := w.Listen(ln)
	t.Cleanup(func() { _ = watched.Close() })
	cn, err := NewTransport(Config{DialTimeout: time.Minute}).open(context.Background(), poolKey{addr: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cn.abort)
	client, err := watched.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for name, nc := range map[string]net.Conn{"worker": cn.tcp, "client": ClientOf(client).NetConn()} {
		raw, err := nc.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		on := 0
		if err := raw.Control(func(fd uintptr) {
			on, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
		}); err != nil || on == 0 {
			t.Errorf("TCP_NODELAY of the %s's connection is %d, %v", name, on, err)
		}
	}
}
