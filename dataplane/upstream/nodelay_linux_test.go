package upstream

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoDelay: small pieces leave for workers at once.
func TestNoDelay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	cn, err := NewTransport(Config{DialTimeout: time.Minute}).open(context.Background(), &Target{Addr: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cn.abort)
	raw, err := cn.tcp.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	on := 0
	if err := raw.Control(func(fd uintptr) {
		on, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
	}); err != nil || on == 0 {
		t.Errorf("TCP_NODELAY is %d, %v", on, err)
	}
}
