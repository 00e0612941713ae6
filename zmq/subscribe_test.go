package zmq_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

func TestLiveMessages(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Topic: "kv-events"})
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))

	payload := []byte("zero")
	require.EqualValues(t, 0, p.Publish(payload))
	copy(payload, "XXXX") // Publish has copied it.
	require.EqualValues(t, 1, p.Publish(nil))
	requireMessage(t, next(t, messages), "kv-events", 0, "zero")
	requireMessage(t, next(t, messages), "kv-events", 1, "")
}

func TestLateSubscriberReplays(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "t"})
	p.Publish([]byte("a"))
	p.Publish([]byte("b"))
	require.Equal(t, []string{"t0:a", "t1:b"}, replayAll(t, p.ReplayEndpoint(), 0)) // Sent: nobody heard.

	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint(), Topic: "t"})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	p.Publish([]byte("c"))
	requireMessage(t, next(t, messages), "t", 2, "c")
	require.Equal(t, []string{"t0:a", "t1:b", "t2:c"}, replayAll(t, p.ReplayEndpoint(), 0))
	require.Equal(t, []string{"t1:b", "t2:c"}, replayAll(t, p.ReplayEndpoint(), 1))
	require.Empty(t, replayAll(t, p.ReplayEndpoint(), 3))
}

func TestTopics(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Topic: "load"})
	all, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	same, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint(), Topic: "load"})
	prefix, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint(), Topic: "lo"})
	other, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint(), Topic: "kv-events"})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 4))
	p.Publish([]byte("x"))
	for _, messages := range []chan zmq.Message{all, same, prefix} {
		requireMessage(t, next(t, messages), "load", 0, "x")
	}
	require.Empty(t, other)
}

func TestGapFaults(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	p.Publish([]byte("a"))
	require.EqualValues(t, 1, p.PublishDropped([]byte("b")))
	require.EqualValues(t, 2, p.Skip())
	p.Publish([]byte("d"))
	requireMessage(t, next(t, messages), "", 0, "a")
	requireMessage(t, next(t, messages), "", 3, "d")
	require.Equal(t, []string{"0:a", "1:b", "3:d"}, replayAll(t, p.ReplayEndpoint(), 0))
}

func TestPublisherRestart(t *testing.T) {
	p, stop := newPublisher(t, zmq.PublisherConfig{Endpoint: freePath(t), FirstSeq: 41})
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	p.Publish([]byte("before"))
	requireMessage(t, next(t, messages), "", 41, "before")
	stop()

	again, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: p.Endpoint()})
	require.NoError(t, again.WaitSubscriptions(waitCtx(t), 1))
	again.Publish([]byte("after"))
	requireMessage(t, next(t, messages), "", 0, "after")
}

func TestSubscribeBeforeThePeerIsThere(t *testing.T) {
	endpoint := freePath(t)
	messages, _ := listen(t, zmq.Subscription{Endpoint: endpoint})
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	p.Publish([]byte("x"))
	requireMessage(t, next(t, messages), "", 0, "x")
}

func TestTwoReceivers(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	a, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	b, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 2))
	p.Publish([]byte("x"))
	requireMessage(t, next(t, a), "", 0, "x")
	requireMessage(t, next(t, b), "", 0, "x")
}

func TestManySubscriptions(t *testing.T) {
	const n, each = 200, 20
	streams := make([]chan zmq.Message, n)
	publishers := make([]*zmq.Publisher, 4)
	for i := range publishers {
		publishers[i], _ = newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	}
	for i := range streams {
		streams[i], _ = listen(t, zmq.Subscription{Endpoint: publishers[i%4].Endpoint()})
	}
	for i, p := range publishers {
		require.NoError(t, p.WaitSubscriptions(waitCtx(t), n/4))
		for j := range each {
			p.Publish(fmt.Appendf(nil, "%d.%d", i, j))
		}
	}
	for i, messages := range streams {
		for j := range each {
			requireMessage(t, next(t, messages), "", uint64(j), fmt.Sprintf("%d.%d", i%4, j))
		}
	}
}

func TestCancelFromACallback(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	got := make(chan zmq.Message, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- zmq.Subscribe(ctx, zmq.Subscription{Endpoint: p.Endpoint(), OnMessage: func(m zmq.Message) {
			<-ready // All three are there.
			got <- m.Clone()
			cancel()
		}})
	}()
	other, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 2))
	for _, s := range []string{"a", "b", "c"} {
		p.Publish([]byte(s))
	}
	for i, s := range []string{"a", "b", "c"} {
		requireMessage(t, next(t, other), "", uint64(i), s)
	}
	close(ready)
	require.NoError(t, next(t, done))
	requireMessage(t, next(t, got), "", 0, "a")
	require.Empty(t, got, "no callback begins after the end of the context")
}

func TestSubscriptionsThatAreWrong(t *testing.T) {
	ignore := func(zmq.Message) {}
	for endpoint, want := range map[string]string{
		"": "tcp://host:port", "nonsense": "tcp://host:port", "tcp://": "port", "tcp://127.0.0.1:port": `"port" is not a port`,
		"tcp://127.0.0.1": "port", "tcp://127.0.0.1:0": "not a port", "tcp://127.0.0.1:70000": "not a port", "tcp://*:5557": "no host",
		"tcp://:5557": "no host", "udp://x:1": "not udp://", "inproc://x": "not inproc://", "pgm://x;y:1": "not pgm://",
		"ipc://": "path", "tcp://::1:5557": "tcp://host:port",
	} {
		err := zmq.Subscribe(t.Context(), zmq.Subscription{Endpoint: endpoint, OnMessage: ignore})
		require.ErrorContains(t, err, want, endpoint)
	}
	require.Error(t, zmq.Subscribe(t.Context(), zmq.Subscription{Endpoint: "tcp://127.0.0.1:1"}), "no OnMessage")
	long := strings.Repeat("t", 246)
	require.ErrorContains(t, zmq.Subscribe(t.Context(), zmq.Subscription{
		Endpoint: "tcp://127.0.0.1:1", Topic: long, OnMessage: ignore,
	}), "topic")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, zmq.Subscribe(ctx, zmq.Subscription{Endpoint: "tcp://127.0.0.1:1", OnMessage: ignore}))
}
