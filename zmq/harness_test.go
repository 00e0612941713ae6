package zmq_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/zmq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for the network; a passing test comes nowhere near it.
const patience = 20 * time.Second

const anyPort = "tcp://127.0.0.1:*"

// waitCtx returns a context that ends with the test, or when patience does.
func waitCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start runs f until the returned stop, which checks its result; stop also runs at the test's end.
func start(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}

func newPublisher(t testing.TB, cfg zmq.PublisherConfig) (p *zmq.Publisher, stop func()) {
	t.Helper()
	p, err := zmq.NewPublisher(cfg)
	require.NoError(t, err)
	return p, start(t, p.Run)
}

func newReceiver(t testing.TB) *zmq.Receiver {
	t.Helper()
	r, err := zmq.NewReceiver(nil)
	require.NoError(t, err)
	start(t, r.Run)
	return r
}

// listener subscribes and queues what comes.
func listen(t testing.TB, r *zmq.Receiver, s zmq.Subscription) (messages chan zmq.Message, cancel func()) {
	t.Helper()
	messages = make(chan zmq.Message, 1<<16)
	s.OnMessage = func(m zmq.Message) { messages <- m }
	cancel, err := r.Subscribe(s)
	require.NoError(t, err)
	return messages, cancel
}

// next returns the next message.
func next(t testing.TB, messages <-chan zmq.Message) zmq.Message {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(patience):
		require.FailNow(t, "no message")
		return zmq.Message{}
	}
}

func requireMessage(t testing.TB, m zmq.Message, topic string, seq uint64, payload string) {
	t.Helper()
	require.Equal(t, topic, string(m.Topic))
	require.Equal(t, seq, m.Seq)
	require.Equal(t, payload, string(m.Payload))
}

// replayAll returns what a replay says, as "seq:payload".
func replayAll(t testing.TB, endpoint string, from uint64) (got []string) {
	t.Helper()
	n, err := zmq.Replay(waitCtx(t), endpoint, from, func(m zmq.Message) error {
		got = append(got, fmt.Sprintf("%s%d:%s", m.Topic, m.Seq, m.Payload))
		return nil
	})
	require.NoError(t, err)
	require.Len(t, got, n)
	return got
}

// rawSocket opens a socket outside the package's reach, bound to a free port.
func rawSocket(t testing.TB, kind zmq4.Type) (s *zmq4.Socket, endpoint string) {
	t.Helper()
	c, err := zmq4.NewContext()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Term()) })
	s, err = c.NewSocket(kind)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.SetLinger(0))
	require.NoError(t, s.SetSndhwm(0))
	require.NoError(t, s.Bind(anyPort))
	endpoint, err = s.GetLastEndpoint()
	require.NoError(t, err)
	return s, endpoint
}

func seqFrame(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
