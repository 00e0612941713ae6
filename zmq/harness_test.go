package zmq_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/zmq"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(publishEnv); spec != "" {
		publishForBenchmarks(spec)
	}
	leaktest.Main(m)
}

// memory returns the size of Go's heap and stacks.
func memory() uint64 {
	for range 3 { // Pools are empty after two.
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// patience bounds every wait for the network; passing tests need far less.
const patience = 3 * time.Minute

const anyPort = "tcp://127.0.0.1:*"

// waitCtx returns a context that ends with the test, or when patience does.
func waitCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start runs f until the returned stop, which checks its result; stop also runs at the test's
// end.
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

// subscription is a running zmq.Subscribe.
type subscription struct {
	messages     chan zmq.Message
	connected    chan struct{}
	disconnected chan error
	stop         func()
}

// subscribe runs a subscription and queues its callbacks.
func subscribe(t testing.TB, s zmq.Subscription) *subscription {
	t.Helper()
	sub := &subscription{
		messages: make(chan zmq.Message, 1<<16), connected: make(chan struct{}, 1<<10), disconnected: make(chan error, 1<<10),
	}
	s.OnConnect = func() { sub.connected <- struct{}{} }
	s.OnDisconnect = func(err error) { sub.disconnected <- err }
	if s.OnMessage == nil {
		s.OnMessage = func(m zmq.Message) { sub.messages <- m.Clone() }
	}
	sub.stop = start(t, func(ctx context.Context) error { return zmq.Subscribe(ctx, s) })
	return sub
}

// listen is subscribe for tests that need messages alone.
func listen(t testing.TB, s zmq.Subscription) (messages chan zmq.Message, stop func()) {
	t.Helper()
	sub := subscribe(t, s)
	return sub.messages, sub.stop
}

// next returns the next value of a channel.
func next[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.FailNow(t, "nothing comes")
	}
	return v
}

func requireMessage(t testing.TB, m zmq.Message, topic string, seq uint64, payload string) {
	t.Helper()
	require.Equal(t, topic, string(m.Topic))
	require.Equal(t, seq, m.Seq)
	require.Equal(t, payload, string(m.Payload))
}

// replayAll returns the messages of a replay as "topic, sequence:payload".
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

func seqFrame(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
