package ingress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

type wrapper struct{ net.Conn }

func (w wrapper) NetConn() net.Conn { return w.Conn }

func TestWatcherSeesClientLeave(t *testing.T) {
	tests := []struct {
		name  string
		wrap  func(net.Conn) net.Conn
		leave func(*net.TCPConn)
	}{
		{"close", nil, func(c *net.TCPConn) { c.Close() }},
		{"reset", nil, func(c *net.TCPConn) { c.SetLinger(0); c.Close() }},
		{"half-close", nil, func(c *net.TCPConn) { c.CloseWrite() }},
		{"bytes, then close", nil, func(c *net.TCPConn) { io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); c.Close() }},
		{"below a wrapper", func(c net.Conn) net.Conn { return wrapper{wrapper{c}} }, func(c *net.TCPConn) { c.Close() }},
		{"below TLS", func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{}) }, func(c *net.TCPConn) { c.Close() }},
	}
	w := ingresstest.StartWatcher(t)
	for _, tt := range tests {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/before=%v", tt.name, before), func(t *testing.T) {
				client, server := testkit.TCPPair(t)
				var watched net.Conn = server
				if tt.wrap != nil {
					watched = tt.wrap(server)
				}
				if before {
					tt.leave(client)
				}
				gone := make(chan struct{})
				stop, err := w.Watch(watched, func() { close(gone) })
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				if !before {
					tt.leave(client)
				}
				t.Logf("seen after %v", ingresstest.Await(t, "gone", gone))
			})
		}
	}
}

// TestWatcherIgnoresBytes sends the next request early, has Go's own poller read it, and only
// then leaves.
func TestWatcherIgnoresBytes(t *testing.T) {
	w := ingresstest.StartWatcher(t)
	client, server := testkit.TCPPair(t)
	var left atomic.Bool
	gone := make(chan struct{})
	stop, err := w.Watch(server, func() {
		if !left.Load() {
			t.Error("gone was called for bytes")
		}
		close(gone)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	br := bufio.NewReader(server)
	for i := range 100 {
		fmt.Fprintf(client, "ping %d\n", i)
		if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("ping %d\n", i) {
			t.Fatalf("read %q %v", line, err)
		}
	}
	left.Store(true)
	client.Close()
	ingresstest.Await(t, "gone", gone)
}

// TestWatcherReusedDescriptor closes watched connections under the Watcher's feet while others
// take their numbers.
func TestWatcherReusedDescriptor(t *testing.T) {
	w := ingresstest.StartWatcher(t)
	ln := ingresstest.Listen(t)
	defer ln.Close()
	for i := range 300 {
		c1, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s1, _ := ln.Accept()
		stop1, err := w.Watch(s1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		s1.Close() // Its number is free: the next accept is likely to get it.
		c2, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s2, _ := ln.Accept()
		gone := make(chan struct{})
		var left atomic.Bool
		stop2, err := w.Watch(s2, func() {
			if !left.Load() {
				t.Error("gone was called for another's end")
			}
			close(gone)
		})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		c1.Close()
		stop1() // Must not end the second watch.
		left.Store(true)
		c2.Close()
		ingresstest.Await(t, "gone", gone)
		stop2()
		s2.Close()
	}
}

func TestWatcherNotTCP(t *testing.T) {
	w := ingresstest.StartWatcher(t)
	a, b := net.Pipe()
	defer b.Close()
	stop, err := w.Watch(a, func() { t.Error("gone was called") })
	if err != nil || stop == nil {
		t.Fatalf("Watch = %v %v, want a no-op", stop != nil, err)
	}
	a.Close()
	stop()
}

func TestWatcherClosed(t *testing.T) {
	w, err := ingress.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	_, server := testkit.TCPPair(t)
	stop, err := w.Watch(server, func() {})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	stop()
	if _, err := w.Watch(server, func() {}); !errors.Is(err, ingress.ErrClosed) {
		t.Errorf("Watch after Close = %v, want ErrClosed", err)
	}
}

// TestWatcherCrowd has many clients leave at the same moment.
func TestWatcherCrowd(t *testing.T) {
	w := ingresstest.StartWatcher(t)
	const crowd = 200
	var wg sync.WaitGroup
	clients := make([]*net.TCPConn, crowd)
	for i := range crowd {
		client, server := testkit.TCPPair(t)
		clients[i] = client
		wg.Add(1)
		stop, err := w.Watch(server, wg.Done)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	for _, c := range clients {
		go c.Close()
	}
	ingresstest.Within(t, "crowd", wg.Wait)
}
