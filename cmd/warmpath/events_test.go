package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// eventsPatience bounds every wait for the network; a passing test comes nowhere near it.
const eventsPatience = 2 * time.Minute

// lineBuffer collects output and tells of each line as it comes.
type lineBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	lines chan string
}

func newLineBuffer() *lineBuffer { return &lineBuffer{lines: make(chan string, 1024)} }

func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p)
	for {
		line, err := b.buf.ReadString('\n')
		if err != nil {
			b.buf.WriteString(line)
			return len(p), nil
		}
		b.lines <- strings.TrimSuffix(line, "\n")
	}
}

func (b *lineBuffer) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-b.lines:
		return line
	case <-time.After(eventsPatience):
		require.FailNow(t, "no line")
		return ""
	}
}

// startEvents runs the command until stop, which returns its error.
func startEvents(t *testing.T, args ...string) (out, warn *lineBuffer, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, warn = newLineBuffer(), newLineBuffer()
	cmd := newEventsCommand()
	cmd.SetArgs(append([]string{"--replay-timeout", eventsPatience.String()}, args...)) // the last one counts
	cmd.SetOut(out)
	cmd.SetErr(warn)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return out, warn, stop
}

func startPublisher(t *testing.T, cfg zmq.PublisherConfig) (p *zmq.Publisher, stop func()) {
	t.Helper()
	p, err := zmq.NewPublisher(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(stop)
	return p, stop
}

func waitSubscribed(t *testing.T, p *zmq.Publisher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventsPatience)
	defer cancel()
	require.NoError(t, p.WaitSubscriptions(ctx, 1))
}

// removal is a batch whose one hash and time are n.
func removal(n uint64) []byte {
	return kvevent.Append(nil, &kvevent.Batch{Time: float64(n), HasRank: true, Events: []kvevent.Event{
		{Kind: kvevent.Removed, Hashes: []uint64{n}, Medium: kvevent.MediumGPU},
	}}, kvevent.SGLang0523)
}

func removalLine(seq int, topic string, n uint64) string {
	return fmt.Sprintf(`{"seq":%d,"topic":%q,"ts":%d,"rank":0,`+
		`"events":[{"type":"BlockRemoved","block_hashes":[%d],"medium":"GPU"}]}`, seq, topic, n, int64(n))
}

const eventsAnyPort = "tcp://127.0.0.1:*"

func TestEventsReplayThenLive(t *testing.T) {
	p, _ := startPublisher(t, zmq.PublisherConfig{Endpoint: eventsAnyPort, ReplayEndpoint: eventsAnyPort, Topic: "kv"})
	for n := range uint64(4) {
		p.Publish(removal(n))
	}
	out, warn, stop := startEvents(t, p.Endpoint(), "--replay", p.ReplayEndpoint(), "--from", "1", "--topic", "kv")
	for seq := 1; seq < 4; seq++ {
		require.Equal(t, removalLine(seq, "kv", uint64(seq)), out.next(t))
	}
	waitSubscribed(t, p)
	p.Publish(removal(4))
	require.Equal(t, removalLine(4, "kv", 4), out.next(t))
	p.PublishDropped(removal(5)) // A gap that the replay fills.
	p.Skip()                     // One that it cannot.
	p.Publish(removal(7))
	require.Equal(t, removalLine(5, "kv", 5), out.next(t))
	require.Equal(t, removalLine(7, "kv", 7), out.next(t))
	require.Equal(t, "warmpath events: gap: sequences 6 to 6 are missing", warn.next(t))
	p.Publish([]byte{0xc1})
	require.Contains(t, warn.next(t), "sequence 8: cannot decode batch of 1 bytes")
	require.NoError(t, stop(), "an interrupt is no failure")
	require.Empty(t, out.lines)
}

func TestEventsLiveOnly(t *testing.T) {
	p, stopFirst := startPublisher(t, zmq.PublisherConfig{Endpoint: "tcp://" + natstest.Address(t), FirstSeq: 5})
	endpoint := strings.TrimPrefix(p.Endpoint(), "tcp://")
	out, warn, stop := startEvents(t, endpoint, "--count", "4")
	waitSubscribed(t, p)
	p.Publish(removal(1))
	p.Skip()
	p.Publish(removal(1 << 63)) // Negative, as SGLang's hashes are.
	require.Equal(t, removalLine(5, "", 1), out.next(t))
	require.Contains(t, out.next(t), `"block_hashes":[-9223372036854775808]`)
	require.Contains(t, warn.next(t), "gap: sequences 6 to 6 are missing")
	stopFirst()

	again, _ := startPublisher(t, zmq.PublisherConfig{Endpoint: p.Endpoint()})
	waitSubscribed(t, again)
	again.Publish(kvevent.AppendLoad(nil, &kvevent.Load{Running: 2, Rank: 1}))
	require.Contains(t, warn.next(t), "; trying again")
	require.Contains(t, warn.next(t), "sequence went back from 7 to 0")
	require.Contains(t, out.next(t), `{"seq":0,"topic":"","rank":1,"load":{"running":2,`)
	again.Publish(removal(3))
	require.Equal(t, removalLine(1, "", 3), out.next(t))
	require.NoError(t, stop(), "--count ends it")
}

func TestEventsRestartBetweenReplayAndLive(t *testing.T) {
	old, stopOld := startPublisher(t, zmq.PublisherConfig{Endpoint: "tcp://" + natstest.Address(t), ReplayEndpoint: "tcp://" + natstest.Address(t)})
	for n := range uint64(3) {
		old.Publish(removal(n))
	}
	out, warn, _ := startEvents(t, old.Endpoint(), "--replay", old.ReplayEndpoint())
	for seq := range 3 {
		require.Equal(t, removalLine(seq, "", uint64(seq)), out.next(t))
	}
	stopOld()
	p, _ := startPublisher(t, zmq.PublisherConfig{Endpoint: old.Endpoint(), ReplayEndpoint: old.ReplayEndpoint()})
	p.PublishDropped(removal(10))
	waitSubscribed(t, p)
	p.Publish(removal(11))
	said := warn.next(t)
	if strings.Contains(said, "; trying again") { // where the old one had been met, or missed
		said = warn.next(t)
	}
	require.Contains(t, said, "sequence went back from 2 to 1")
	require.Equal(t, removalLine(0, "", 10), out.next(t))
	require.Equal(t, removalLine(1, "", 11), out.next(t))
}

func TestEventsReplayThatNobodyAnswers(t *testing.T) {
	p, _ := startPublisher(t, zmq.PublisherConfig{Endpoint: eventsAnyPort})
	out, warn, _ := startEvents(t, p.Endpoint(), "--replay", "127.0.0.1:1", "--replay-timeout", "1ms", "--count", "1")
	require.Contains(t, warn.next(t), `cannot replay "tcp://127.0.0.1:1" from 0: context deadline exceeded`)
	waitSubscribed(t, p)
	p.Publish(removal(0))
	require.Equal(t, removalLine(0, "", 0), out.next(t))
}

// TestEventsWithoutAPublisher: the wait for a worker that is not there is explained, once.
func TestEventsWithoutAPublisher(t *testing.T) {
	out, warn, stop := startEvents(t, "tcp://127.0.0.1:1")
	said := warn.next(t)
	require.Contains(t, said, `cannot follow "tcp://127.0.0.1:1": `)
	require.Contains(t, said, "; trying again")
	require.NoError(t, stop())
	require.Empty(t, out.lines)
}

func TestEventsUsage(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"a", "b"},
		{"tcp://127.0.0.1:1", "--from", "3"},
		{"tcp://127.0.0.1:1", "--count", "-1"},
		{"nonsense://x"},
		{"tcp://127.0.0.1:port"},
	} {
		cmd := newEventsCommand()
		cmd.SilenceErrors = true
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		require.Error(t, cmd.Execute(), "%q", args)
	}
}
