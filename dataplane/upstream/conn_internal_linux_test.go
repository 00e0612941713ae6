package upstream

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// idleConn returns an idle connection to a worker, and the worker's end of it.
func idleConn(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	near, peer := testkit.TCPPair(t)
	return newConn(near, near, &Target{Addr: "worker"}, new(sync.Pool)), peer
}

func TestAlive(t *testing.T) {
	cn, peer := idleConn(t)
	for range 3 {
		if !cn.alive() {
			t.Fatal("an idle connection is not alive")
		}
	}
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "a connection with a byte that nobody asked for is alive", func() bool { return !cn.alive() })
	var b [2]byte
	if n, err := cn.in.nc.Read(b[:]); n != 1 || b[0] != 'x' || err != nil {
		t.Errorf("after the looks, Read = %d %q %v, want the byte", n, b[:n], err)
	}

	cn, peer = idleConn(t)
	peer.Close()
	testkit.Await(t, "a connection that the worker has closed is alive", func() bool { return !cn.alive() })

	cn, _ = idleConn(t)
	cn.abort()
	if cn.alive() {
		t.Error("a connection that was closed here is alive")
	}
}

// TestWriterThatHasNotRun: all of a request is written and answered before its writer is
// scheduled again. The connection serves on.
func TestWriterThatHasNotRun(t *testing.T) {
	cn, peer := idleConn(t)
	done := make(chan struct{})
	cn.out.done = done
	go func() {
		defer close(done)
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := cn.tcp.Write(nil); err != nil { // finishSend waits
				return
			}
		}
	}()
	if !cn.out.finish() {
		t.Fatal("finishSend = false, want true: nothing failed")
	}
	if _, err := cn.tcp.Write([]byte("x")); err != nil {
		t.Fatalf("the next request: %v", err)
	}
	var b [1]byte
	if n, err := peer.Read(b[:]); n != 1 || err != nil {
		t.Errorf("peer.Read = %d %v, want the byte", n, err)
	}
}
