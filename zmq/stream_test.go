package zmq_test

import (
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// TestEachMessageByItself: each message is delivered before the next one is written, however
// its bytes arrive.
func TestEachMessageByItself(t *testing.T) {
	const n = 5000
	took := make(chan uint64)
	written := make(chan struct{})
	endpoint := scripted(t, func(conn net.Conn) {
		defer close(written)
		greetAs(conn, peerHello, peerReady, len(asked31))
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range uint64(n) {
			message := wire("kv", i, strings.Repeat("x", rng.IntN(1<<rng.IntN(18))))
			for len(message) > 0 {
				k := 1 + rng.IntN(len(message))
				_, _ = conn.Write(message[:k])
				message = message[k:]
			}
			if <-took != i {
				return
			}
		}
	})
	sub := subscribe(t, zmq.Subscription{
		Endpoint: endpoint, Topic: "kv", Every: time.Millisecond, OnTick: func() {},
		OnMessage: func(m zmq.Message) { took <- m.Seq },
	})
	next(t, written)
	sub.stop()
}

// TestPartialMessage: half a message at the end of a connection is dropped, and the next
// connection starts afresh.
func TestPartialMessage(t *testing.T) {
	whole := wire("kv", 1, strings.Repeat("x", 100_000))
	turn := 0
	endpoint := scripted(t, func(conn net.Conn) {
		greetAs(conn, peerHello, peerReady, len(asked31))
		if turn++; turn <= 3 {
			_, _ = conn.Write(whole[:len(whole)*turn/4])
			return
		}
		_, _ = conn.Write(wire("kv", 2, "y"))
		_, _ = conn.Read(make([]byte, 1)) // Until it leaves.
	})
	malformed := make(chan int, 16)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint, Topic: "kv", OnMalformed: func(n int) { malformed <- n }})
	requireMessage(t, next(t, sub.messages), "kv", 2, "y")
	for range 3 {
		require.ErrorContains(t, next(t, sub.disconnected), "hung up")
		next(t, sub.connected)
	}
	require.Empty(t, malformed)
	sub.stop()
}

// TestOtherTopics: messages of other topics are dropped, of any size.
func TestOtherTopics(t *testing.T) {
	endpoint := scripted(t, func(conn net.Conn) {
		greetAs(conn, peerHello, peerReady, len(asked31))
		_, _ = conn.Write(append(wire("load", 1, strings.Repeat("x", 1<<20)), frame(0, "k", false)...))
		_, _ = conn.Write(wire("kv-events", 2, "y"))
		_, _ = conn.Read(make([]byte, 1)) // Until it leaves.
	})
	messages, stop := listen(t, zmq.Subscription{Endpoint: endpoint, Topic: "kv", OnMalformed: func(int) { t.Error("malformed") }})
	requireMessage(t, next(t, messages), "kv-events", 2, "y")
	require.Empty(t, messages)
	stop()
}

// TestTicks: ticks run with a connection and without one.
func TestTicks(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	for _, s := range []zmq.Subscription{{Endpoint: p.Endpoint()}, {Endpoint: freePath(t)}} {
		ticks := make(chan struct{})
		s.Every = time.Millisecond
		stopped := make(chan struct{})
		s.OnTick = func() {
			select {
			case ticks <- struct{}{}:
			case <-stopped:
			}
		}
		sub := subscribe(t, s)
		for range 5 {
			next(t, ticks)
		}
		close(stopped)
		sub.stop()
	}
}

// freePath is an endpoint for one test alone; a free port may soon be another process's.
func freePath(t *testing.T) string {
	t.Helper()
	return "ipc://" + filepath.Join(t.TempDir(), "s")
}

func TestIPC(t *testing.T) {
	for _, endpoint := range []string{freePath(t), "ipc://@" + filepath.Join(t.TempDir(), "abstract")} {
		p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint})
		messages, stop := listen(t, zmq.Subscription{Endpoint: endpoint})
		require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
		p.Publish([]byte("x"))
		requireMessage(t, next(t, messages), "", 0, "x")
		stop()
	}
}

// TestAddresses: by name, and by IPv6 where the machine has it.
func TestAddresses(t *testing.T) {
	v4, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(v4.Endpoint(), "tcp://"))
	require.NoError(t, err)
	sub := subscribe(t, zmq.Subscription{Endpoint: "tcp://localhost:" + port})
	next(t, sub.connected)

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	require.NoError(t, l.Close())
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: "tcp://[::1]:*"})
	six := subscribe(t, zmq.Subscription{Endpoint: p.Endpoint()})
	next(t, six.connected)
}
