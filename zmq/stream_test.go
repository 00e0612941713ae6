package zmq_test

import (
	"hash/crc32"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// TestLongSequence: 100,000 messages of libzmq's, of all sizes, while deadlines come and go.
func TestLongSequence(t *testing.T) {
	const n = 100_000
	raw, endpoint := rawSocket(t, zmq4.XPUB)
	type seen struct {
		seq uint64
		sum uint32
	}
	got := make(chan seen, n)
	sub := subscribe(t, zmq.Subscription{
		Endpoint: endpoint, Topic: "kv", Every: time.Millisecond, OnTick: func() {},
		OnMessage: func(m zmq.Message) { got <- seen{m.Seq, crc32.ChecksumIEEE(m.Payload)} },
	})
	_, err := raw.RecvBytes(0) // The subscription.
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	pool := make([]byte, 400_000)
	for i := range pool {
		pool[i] = byte(rng.Uint32())
	}
	want := make([]uint32, n)
	for i := range want {
		size := rng.IntN(1 << rng.IntN(11))
		if i%5000 == 0 {
			size = rng.IntN(300_000)
		}
		at := rng.IntN(len(pool) - size)
		payload := pool[at : at+size]
		want[i] = crc32.ChecksumIEEE(payload)
		_, err := raw.SendMessage("kv-events", seqFrame(uint64(i)), payload)
		require.NoError(t, err)
	}
	for i, sum := range want {
		m := next(t, got)
		require.Equal(t, seen{uint64(i), sum}, m)
	}
	require.Empty(t, sub.disconnected)
}

// TestEachMessageByItself: whoever waits for a message's effect before the next is written waits for no other, however the bytes come.
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

// TestSlowConsumer: what is not read waits in the kernel and in the publisher, which drops at its own mark; the numbers
// show it, and the stream goes on.
func TestSlowConsumer(t *testing.T) {
	const n = 40_000
	raw, endpoint := rawSocket(t, zmq4.XPUB, func(s *zmq4.Socket) error { return s.SetSndhwm(100) })
	held := make(chan struct{})
	seqs := make(chan uint64, n+1)
	subscribe(t, zmq.Subscription{Endpoint: endpoint, OnMessage: func(m zmq.Message) {
		<-held
		seqs <- m.Seq
	}})
	_, err := raw.RecvBytes(0) // The subscription.
	require.NoError(t, err)
	payload := strings.Repeat("x", 4<<10) // 160 MB in all: more than any kernel buffers.
	for i := range n {
		_, err := raw.SendMessage("", seqFrame(uint64(i)), payload)
		require.NoError(t, err)
	}
	close(held)
	last, came := uint64(0), 0
	for last < n {
		select {
		case seq := <-seqs:
			if came > 0 {
				require.Greater(t, seq, last)
			}
			last = seq
			came++
		default: // The publisher has room again, sooner or later.
			_, err := raw.SendMessage("", seqFrame(n), "after")
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
	}
	require.Less(t, came, n, "messages that came")
}

// TestPartialMessage: half a message at the end of a connection is no message, and spoils nothing of the next.
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

// TestOtherTopics: what a peer should not have sent is dropped, whatever its size.
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

// TestTicks: they come with a connection, without one, and where publishers connect.
func TestTicks(t *testing.T) {
	_, endpoint := rawSocket(t, zmq4.PUB)
	for _, s := range []zmq.Subscription{{Endpoint: endpoint}, {Endpoint: freePath(t)}, {Endpoint: freePath(t), Bind: true}} {
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

// freePath is an endpoint where nobody else listens: a port that is free now may be another process's later.
func freePath(t *testing.T) string {
	t.Helper()
	return "ipc://" + filepath.Join(t.TempDir(), "s")
}

func TestIPC(t *testing.T) {
	for _, endpoint := range []string{freePath(t), "ipc://@" + filepath.Join(t.TempDir(), "abstract")} {
		p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint, Bind: true})
		messages, stop := listen(t, zmq.Subscription{Endpoint: endpoint})
		require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
		p.Publish([]byte("x"))
		requireMessage(t, next(t, messages), "", 0, "x")
		stop()
	}
}

// TestAddresses: by name, and by IPv6 where the machine has it.
func TestAddresses(t *testing.T) {
	_, endpoint := rawSocket(t, zmq4.PUB)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	require.NoError(t, err)
	sub := subscribe(t, zmq.Subscription{Endpoint: "tcp://localhost:" + port})
	next(t, sub.connected)

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	require.NoError(t, l.Close())
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: "tcp://[::1]:*", Bind: true})
	six := subscribe(t, zmq.Subscription{Endpoint: p.Endpoint()})
	next(t, six.connected)
}

// TestBindTakesOneAfterAnother: an engine that restarts connects again, perhaps before its old connection is known to be dead.
func TestBindTakesOneAfterAnother(t *testing.T) {
	endpoint := freePath(t)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint, Bind: true})
	first, stop := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint})
	require.NoError(t, first.WaitSubscriptions(waitCtx(t), 1))
	second, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint})
	require.NoError(t, second.WaitSubscriptions(waitCtx(t), 1))
	first.Publish([]byte("first"))
	requireMessage(t, next(t, sub.messages), "", 0, "first")
	stop()
	require.ErrorContains(t, next(t, sub.disconnected), "hung up")
	second.Publish([]byte("second"))
	requireMessage(t, next(t, sub.messages), "", 0, "second")
	sub.stop()
}
