package zmq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

func ignore(zmq.Message) error { return nil }

func TestReplayKeepsTheLast(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{
		Endpoint: anyPort, ReplayEndpoint: anyPort, BufferSteps: 3, FirstSeq: 10,
	})
	require.Empty(t, replayAll(t, p.ReplayEndpoint(), 0))
	for i := range 8 {
		p.Publish(fmt.Append(nil, i))
	}
	require.Equal(t, []string{"15:5", "16:6", "17:7"}, replayAll(t, p.ReplayEndpoint(), 0))
}

// TestReplayIsWhole requests more messages than ZeroMQ queues by default.
func TestReplayIsWhole(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
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

// TestReplayWithAHole: messages that the publisher does not have are asked for once more, and then the
// replay goes on behind them.
func TestReplayWithAHole(t *testing.T) {
	ctx, cancel := context.WithCancel(waitCtx(t))
	defer cancel()
	var requests atomic.Int64
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, IgnoreReplay: func() bool {
		if requests.Add(1) > 10 {
			cancel() // it would go on for good
		}
		return false
	}})
	holes, n := []uint64{500, 1500, 1501, 1502, 3000}, uint64(4000)
	for seq := range n {
		if slices.Contains(holes, seq) {
			p.Skip()
		} else {
			p.Publish([]byte("a"))
		}
	}
	next := uint64(0)
	var missing []uint64
	got, err := zmq.Replay(ctx, p.ReplayEndpoint(), 0, func(m zmq.Message) error {
		for ; next < m.Seq; next++ {
			missing = append(missing, next)
		}
		next++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, holes, missing)
	require.EqualValues(t, n, got+len(holes))
}

func TestReplayOfOldReleases(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{
		Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "t", ReplayWithoutTopic: true,
	})
	p.Publish([]byte("a"))
	require.Equal(t, []string{"0:a"}, replayAll(t, p.ReplayEndpoint(), 0))
}

func TestReplayGivesUp(t *testing.T) {
	gone, stop := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
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
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
	p.Publish([]byte("a"))
	p.Publish([]byte("b"))
	enough := errors.New("enough")
	n, err := zmq.Replay(waitCtx(t), p.ReplayEndpoint(), 0, func(zmq.Message) error { return enough })
	require.ErrorIs(t, err, enough)
	require.Zero(t, n)
}

// replayPeer plays an engine's ROUTER on one connection: handshake, request, answers.
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

// TestReplaySays: the exact bytes sent to a ROUTER, and the answer to a PING.
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

// TestReplayOfADyingPublisher: the answers so far count, and the next process at that address
// is not asked.
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

// TestReplayOfAStranger: a peer that can never be a replay endpoint is an error at once.
func TestReplayOfAStranger(t *testing.T) {
	pub, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	web := scripted(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	for endpoint, want := range map[string]string{pub.Endpoint(): "port of the live events", web: "speaks no ZMTP"} {
		_, err := zmq.Replay(waitCtx(t), endpoint, 0, ignore)
		require.ErrorIs(t, err, zmq.ErrProtocol)
		require.ErrorContains(t, err, want)
	}
}

// TestReplayHoldsWhatIsRead: a slow callback makes the publisher wait, and no queue of answers
// grows.
func TestReplayHoldsWhatIsRead(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
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
