package zmq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

func ignore(zmq.Message) error { return nil }

func TestReplayKeepsTheLast(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{
		Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort, BufferSteps: 3, FirstSeq: 10,
	})
	require.Empty(t, replayAll(t, p.ReplayEndpoint(), 0))
	for i := range 8 {
		p.Publish(fmt.Append(nil, i))
	}
	require.Equal(t, []string{"15:5", "16:6", "17:7"}, replayAll(t, p.ReplayEndpoint(), 0))
}

// TestReplayIsWhole asks for more than ZeroMQ queues by default.
func TestReplayIsWhole(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort})
	const n = zmq.DefaultBufferSteps
	for i := range n {
		p.Publish(fmt.Appendf(nil, "%1000d", i))
	}
	want := uint64(0)
	got, err := zmq.Replay(waitCtx(t), p.ReplayEndpoint(), 0, func(m zmq.Message) error {
		if m.Seq != want {
			return fmt.Errorf("sequence %d, want %d", m.Seq, want)
		}
		want++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, n, got)
	require.Zero(t, p.Dropped())
}

func TestReplayOfOldReleases(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{
		Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort, Topic: "t", ReplayWithoutTopic: true,
	})
	p.Publish([]byte("a"))
	require.Equal(t, []string{"0:a"}, replayAll(t, p.ReplayEndpoint(), 0))
}

func TestReplayGivesUp(t *testing.T) {
	gone, stop := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort})
	stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	n, err := zmq.Replay(ctx, gone.ReplayEndpoint(), 0, ignore)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, n)

	_, err = zmq.Replay(context.Background(), "nonsense", 0, ignore)
	require.Error(t, err)
}

func TestReplayStopsAtTheCallbacksError(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort})
	p.Publish([]byte("a"))
	p.Publish([]byte("b"))
	enough := errors.New("enough")
	n, err := zmq.Replay(waitCtx(t), p.ReplayEndpoint(), 0, func(zmq.Message) error { return enough })
	require.ErrorIs(t, err, enough)
	require.Zero(t, n)
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

// TestReplayFrames looks at the publisher's answers as an engine's captured ones stand in kvevent's vectors.
func TestReplayFrames(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort, Topic: "kv"})
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

// TestReplayAsksAgain plays an engine whose queue overflows: answers in the middle are lost, then the end marker.
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

// replayPeer plays an engine's ROUTER on one connection: it shakes hands, reads the request and sends answers.
func replayPeer(t *testing.T, conn net.Conn, answers ...[]byte) (request []byte) {
	t.Helper()
	_, err := io.WriteString(conn, peerHello+"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER")
	assert.NoError(t, err)
	request = make([]byte, len(helloBytes)+len(readyBytes)+3+2+10) // DEALER is longer than SUB.
	_, err = io.ReadFull(conn, request)
	assert.NoError(t, err)
	for _, b := range answers {
		_, err := conn.Write(b)
		assert.NoError(t, err)
	}
	return request
}

// TestReplaySays: byte for byte, what is said to a ROUTER; and a PING on the way is answered.
func TestReplaySays(t *testing.T) {
	said, pong := make(chan []byte, 1), make(chan []byte, 1)
	endpoint := scripted(t, func(conn net.Conn) {
		said <- replayPeer(t, conn, answer("t", 7, "a"), frame(4, "\x04PING\x00\x00ctx", false))
		b := make([]byte, len("\x04\x08\x04PONGctx"))
		_, err := io.ReadFull(conn, b)
		assert.NoError(t, err)
		pong <- b
		_, err = conn.Write(answer("", 1<<64-1, ""))
		assert.NoError(t, err)
	})
	require.Equal(t, []string{"t7:a"}, replayAll(t, endpoint, 7))
	require.Equal(t, helloBytes+"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"+"\x01\x00"+"\x00\x08"+string(seqFrame(7)), string(<-said))
	require.Equal(t, "\x04\x08\x04PONGctx", string(<-pong))
}

// TestReplayOfADyingPublisher: what came is kept, and whoever is at its place next is not asked for the rest.
func TestReplayOfADyingPublisher(t *testing.T) {
	var asked atomic.Int32
	endpoint := scripted(t, func(conn net.Conn) {
		asked.Add(1)
		replayPeer(t, conn, answer("t", 3, "a"), answer("t", 4, "b")[:5])
	})
	n, err := zmq.Replay(waitCtx(t), endpoint, 3, ignore)
	require.ErrorContains(t, err, "hung up")
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, asked.Load())
}

// TestReplayAwaitsItsPublisher: a peer that hangs up in the handshake may only be starting.
func TestReplayAwaitsItsPublisher(t *testing.T) {
	var asked atomic.Int32
	endpoint := scripted(t, func(conn net.Conn) {
		if asked.Add(1) < 3 {
			return
		}
		replayPeer(t, conn, answer("", 1<<64-1, ""))
		_, _ = conn.Read(make([]byte, 1)) // Until it has hung up.
	})
	require.Empty(t, replayAll(t, endpoint, 0))
}

// TestReplayOfAStranger: what will not be a replay endpoint later either is told at once, and in words.
func TestReplayOfAStranger(t *testing.T) {
	pub, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true})
	web := scripted(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	for endpoint, want := range map[string]string{pub.Endpoint(): "port of the live events", web: "speaks no ZMTP"} {
		_, err := zmq.Replay(waitCtx(t), endpoint, 0, ignore)
		require.ErrorIs(t, err, zmq.ErrProtocol)
		require.ErrorContains(t, err, want)
	}
}

// TestReplayHoldsWhatIsRead: a callback that is slow keeps the publisher waiting, and not a queue of its answers.
func TestReplayHoldsWhatIsRead(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Bind: true, ReplayEndpoint: anyPort})
	const n = 128 // Of 1 MiB: below the ROUTER's high-water mark.
	payload := make([]byte, 1<<20)
	for range n {
		p.Publish(payload)
	}
	before, most := memory(), uint64(0)
	got, err := zmq.Replay(waitCtx(t), p.ReplayEndpoint(), 0, func(m zmq.Message) error {
		if m.Seq%32 == 16 {
			most = max(most, memory())
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, n, got)
	require.Less(t, most, before+32<<20)
}
