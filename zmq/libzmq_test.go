//go:build cgo

package zmq_test

import (
	"bytes"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// In this file libzmq is the other end. Building it takes libzmq's headers (make setup-tests).

// rawSocket opens a socket of libzmq bound to a free port.
func rawSocket(t testing.TB, kind zmq4.Type, options ...func(*zmq4.Socket) error) (s *zmq4.Socket, endpoint string) {
	t.Helper()
	c, err := zmq4.NewContext()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Term()) })
	s, err = c.NewSocket(kind)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.SetLinger(0))
	require.NoError(t, s.SetSndhwm(0))
	require.NoError(t, s.SetRcvtimeo(patience))
	for _, set := range options {
		require.NoError(t, set(s))
	}
	require.NoError(t, s.Bind(anyPort))
	endpoint, err = s.GetLastEndpoint()
	require.NoError(t, err)
	return s, endpoint
}

// TestHandshakeIsLibzmqs: a SUB socket of libzmq sends the same bytes as ours.
func TestHandshakeIsLibzmqs(t *testing.T) {
	said := make(chan string, 1)
	endpoint := scripted(t, func(conn net.Conn) { said <- greetAs(conn, peerHello, peerReady, len(asked31)) })
	c, err := zmq4.NewContext()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Term()) }()
	s, err := c.NewSocket(zmq4.SUB)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.SetLinger(0))
	require.NoError(t, s.SetSubscribe("kv"))
	require.NoError(t, s.Connect(endpoint))
	require.Equal(t, helloBytes+readyBytes+asked31, next(t, said))
}

// TestStreamIsLibzmqs: the bytes that these tests take for a publisher's are libzmq's.
func TestStreamIsLibzmqs(t *testing.T) {
	raw, endpoint := rawSocket(t, zmq4.XPUB)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(endpoint, "tcp://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, helloBytes)
	require.NoError(t, err)
	hello := make([]byte, len(helloBytes))
	_, err = io.ReadFull(conn, hello)
	require.NoError(t, err)
	require.Equal(t, helloBytes[:10], string(hello[:10]))
	ready := make([]byte, len(readyBytes)+1) // XPUB has a letter more.
	_, err = io.WriteString(conn, readyBytes)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, ready)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "\x04\x0a\x09SUBSCRIBE"+"\x04\x0d\x04PING\x00\x00abcdef")
	require.NoError(t, err)
	_, err = raw.RecvBytes(0) // The subscription.
	require.NoError(t, err)
	pong := make([]byte, 13)
	_, err = io.ReadFull(conn, pong)
	require.NoError(t, err)
	require.Equal(t, "\x04\x0b\x04PONGabcdef", string(pong), "the answer to a PING")
	var want []byte
	for i, size := range []int{0, 1, 254, 255, 256, 257, 8191, 8192, 8193, 65535, 65536, 1 << 20} {
		payload := strings.Repeat("p", size)
		_, err := raw.SendMessage("kv", seqFrame(uint64(i)), payload)
		require.NoError(t, err)
		want = append(want, wire("kv", uint64(i), payload)...)
	}
	got := make([]byte, len(want))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "the bytes of messages")
}

// TestReplayPort: a subscription to a real ROUTER, the neighbouring port, fails with ErrProtocol.
func TestReplayPort(t *testing.T) {
	_, endpoint := rawSocket(t, zmq4.ROUTER)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint})
	require.ErrorIs(t, next(t, sub.disconnected), zmq.ErrProtocol)
}

// TestLongSequence: 100,000 messages of libzmq in all sizes, while deadlines pass.
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

// TestSlowConsumer: unread messages wait in the kernel and in the publisher, which drops beyond
// its high-water mark; the sequence numbers show it, and the stream goes on.
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

func TestMalformedMessages(t *testing.T) {
	raw, endpoint := rawSocket(t, zmq4.XPUB)
	frames := make(chan int, 16)
	messages, _ := listen(t, zmq.Subscription{Endpoint: endpoint, OnMalformed: func(n int) { frames <- n }})
	_, err := raw.RecvBytes(0) // The subscription.
	require.NoError(t, err)
	for _, parts := range [][]any{
		{"one"},
		{"", "two"},
		{"", "short", "payload"},
		{"", append(seqFrame(1), 0), "sequence of nine bytes"},
		{"", seqFrame(1), "payload", "four"},
		{"", seqFrame(1), "a", "b", "c", "d", strings.Repeat("e", 1<<20)},
		{"", seqFrame(2), "good"},
	} {
		_, err := raw.SendMessage(parts...)
		require.NoError(t, err)
	}
	requireMessage(t, next(t, messages), "", 2, "good")
	require.Empty(t, messages)
	for _, want := range []int{1, 2, 3, 3, 4, 7} {
		require.Equal(t, want, next(t, frames))
	}
	require.Empty(t, frames)
}

func TestReplayMalformed(t *testing.T) {
	tests := []struct {
		name  string
		parts []any
	}{
		{"one frame", []any{"x"}},
		{"two frames", []any{"", seqFrame(1)}},
		{"first frame not empty", []any{"x", "", seqFrame(1), "payload"}},
		{"short sequence", []any{"", "", "1234567", "payload"}},
		{"five frames", []any{"", "", seqFrame(1), "payload", "more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			router, endpoint := rawSocket(t, zmq4.ROUTER)
			done := make(chan error, 1)
			go func() {
				_, err := zmq.Replay(waitCtx(t), endpoint, 7, ignore)
				done <- err
			}()
			request, err := router.RecvMessageBytes(0)
			require.NoError(t, err)
			require.Equal(t, [][]byte{{}, seqFrame(7)}, request[1:])
			_, err = router.SendMessage(append([]any{request[0]}, tt.parts...)...)
			require.NoError(t, err)
			require.ErrorIs(t, <-done, zmq.ErrMalformed)
		})
	}
}

// TestReplayFrames compares the publisher's answers with an engine's in kvevent's vectors.
func TestReplayFrames(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "kv"})
	p.Publish([]byte("a"))
	c, err := zmq4.NewContext()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Term()) }()
	s, err := c.NewSocket(zmq4.DEALER)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.SetLinger(0))
	require.NoError(t, s.Connect(p.ReplayEndpoint()))
	for _, bad := range [][]any{{"only"}, {"", "short"}, {"", seqFrame(0), "more"}} {
		_, err = s.SendMessage(bad...) // Ignored, as engines do.
		require.NoError(t, err)
	}
	_, err = s.SendMessage("", seqFrame(0))
	require.NoError(t, err)
	for _, want := range [][][]byte{
		{{}, []byte("kv"), seqFrame(0), []byte("a")},
		{{}, {}, seqFrame(1<<64 - 1), {}},
	} {
		got, err := s.RecvMessageBytes(0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestReplayAsksAgain plays an engine with a full queue: answers in the middle are lost, then
// the end marker.
func TestReplayAsksAgain(t *testing.T) {
	router, endpoint := rawSocket(t, zmq4.ROUTER) // rawSocket queues without bound.
	type result struct {
		seqs []uint64
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		_, r.err = zmq.Replay(waitCtx(t), endpoint, 3, func(m zmq.Message) error {
			r.seqs = append(r.seqs, m.Seq)
			return nil
		})
		done <- r
	}()
	for _, answer := range []struct {
		from      uint64 // Asked for.
		sent      [][2]uint64
		markerToo bool
	}{
		{from: 3, sent: [][2]uint64{{10, 20}, {25, 1200}, {1300, 1400}}, markerToo: true}, // A lasting hole, then lost ones.
		{from: 1200, sent: [][2]uint64{{1200, 2300}}},                                     // The marker is lost.
		{from: 2300, markerToo: true},
	} {
		request, err := router.RecvMessageBytes(0)
		require.NoError(t, err)
		require.Equal(t, seqFrame(answer.from), request[2])
		for _, span := range answer.sent {
			for seq := span[0]; seq < span[1]; seq++ {
				_, err := router.SendMessage(request[0], "", "t", seqFrame(seq), "payload")
				require.NoError(t, err)
			}
		}
		if answer.markerToo {
			_, err := router.SendMessage(request[0], "", "", seqFrame(1<<64-1), "")
			require.NoError(t, err)
		}
	}
	got := <-done
	require.NoError(t, got.err)
	var want []uint64
	for seq := uint64(10); seq < 2300; seq++ {
		if seq < 20 || seq >= 25 {
			want = append(want, seq)
		}
	}
	require.Equal(t, want, got.seqs)
}
