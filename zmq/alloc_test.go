//go:build !race

package zmq_test

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

func TestAllocDecoder(t *testing.T) {
	for _, size := range []int{1000, 100 << 10, 1 << 20} { // the latter two outgrow a read
		var stream []byte
		for i := range uint64(200) {
			if len(stream) < 4<<20 {
				stream = append(stream, wire("kv-events", i, strings.Repeat("x", size))...)
			}
		}
		turn := zmq.DecodeLoop(stream)
		all := turn()
		require.Zero(t, testing.AllocsPerRun(50, func() {
			if n := turn(); n != all || n == 0 {
				t.Errorf("%d messages", n)
			}
		}), "messages of %d bytes", size)
	}
}

// TestAllocMessage: from the socket to the callback, waiting in between.
func TestAllocMessage(t *testing.T) {
	const batch = 100
	write, written := make(chan struct{}), make(chan struct{})
	endpoint := scripted(t, func(conn net.Conn) {
		greetAs(conn, peerHello, peerReady, len(asked31))
		var stream []byte
		for range batch {
			stream = append(stream, wire("kv", 1, strings.Repeat("x", 1000))...)
		}
		for range write {
			_, _ = conn.Write(stream)
		}
		close(written)
		_, _ = io.Copy(io.Discard, conn)
	})
	var n atomic.Int64
	all := make(chan struct{})
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint, Topic: "kv", OnMessage: func(zmq.Message) {
		if n.Add(1)%batch == 0 {
			all <- struct{}{}
		}
	}})
	next(t, sub.connected)
	require.Zero(t, testing.AllocsPerRun(500, func() {
		write <- struct{}{}
		<-all
	}), "in %d messages", batch)
	close(write)
	<-written
	sub.stop()
}
