package zmq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
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
