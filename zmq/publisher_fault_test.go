package zmq_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// dial opens a connection to a publisher's socket and leaves the protocol to the test.
func dial(t *testing.T, endpoint string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(waitCtx(t), "tcp", strings.TrimPrefix(endpoint, "tcp://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// First bytes of a publisher's sockets.
var (
	pubReady    = "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	routerReady = "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
)

// join does a subscriber's half of a handshake by hand and subscribes to "kv".
func join(t *testing.T, endpoint, asked string) net.Conn {
	t.Helper()
	conn := dial(t, endpoint)
	_, err := io.WriteString(conn, helloBytes+readyBytes+asked)
	require.NoError(t, err)
	requireBytes(t, conn, helloBytes+pubReady)
	return conn
}

func requireBytes(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(r, got)
	require.NoError(t, err, "after %q", got[:n])
	require.Equal(t, want, string(got))
}

// requireClosed waits until the publisher closes conn, without another byte.
func requireClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Error(t, err)
	require.False(t, isTimeout(err), "%v: the publisher keeps the connection", err)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // Read returns it unwrapped.
	return ok && timeout.Timeout()
}

// TestPublisherTranscript holds both versions' subscriptions, their ends and PINGs to exact
// bytes.
func TestPublisherTranscript(t *testing.T) {
	for name, say := range map[string]struct{ hello, subscribe, other, cancel string }{
		"3.1": {helloBytes, asked31, "\x04\x0b\x09SUBSCRIBEx", "\x04\x09\x06CANCELkv"},
		"3.0": {
			strings.Replace(helloBytes, "\x03\x01", "\x03\x00", 1), asked30, "\x00\x02\x01x", "\x00\x03\x00kv",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Topic: "kv-events"})
			conn := dial(t, p.Endpoint())
			for _, b := range []byte(say.hello + readyBytes + say.other + say.subscribe) {
				_, err := conn.Write([]byte{b})
				require.NoError(t, err)
			}
			requireBytes(t, conn, helloBytes+pubReady)
			require.NoError(t, p.WaitSubscriptions(waitCtx(t), 2))
			p.Publish([]byte("a"))
			requireBytes(t, conn, string(wire("kv-events", 0, "a")))
			// Frames and commands without a meaning to a publisher are ignored, as by libzmq.
			_, err := io.WriteString(conn, say.cancel+"\x00\x00"+"\x01\x01x"+"\x00\x01y"+"\x04\x04\x03NEW"+"\x04\x09\x04PING\x00\x00ab")
			require.NoError(t, err)
			requireBytes(t, conn, "\x04\x07\x04PONGab")
			p.Publish([]byte("nobody hears this"))
			_, err = io.WriteString(conn, say.subscribe)
			require.NoError(t, err)
			require.NoError(t, p.WaitSubscriptions(waitCtx(t), 3))
			long := strings.Repeat("x", 100_000)
			p.Publish([]byte(long))
			requireBytes(t, conn, string(wire("kv-events", 2, long)))
		})
	}
}

// TestStrangersAtThePublisher: the publisher closes connections that break the protocol, and
// another subscriber notices nothing.
func TestStrangersAtThePublisher(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "kv"})
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint(), Topic: "kv"})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	dealerReady := "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
	for name, bytes := range map[string]string{
		"HTTP":                     "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"garbage":                  "\x00\x01\x02",
		"ZMTP 1":                   "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00",
		"ZMTP 2":                   "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x01",
		"CURVE":                    strings.Replace(helloBytes, "NULL\x00", "CURVE", 1),
		"another type of socket":   helloBytes + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB",
		"no type of socket":        helloBytes + "\x04\x06\x05READY",
		"message before READY":     helloBytes + "\x00\x01x",
		"undefined flags":          helloBytes + readyBytes + dealerReady + "\x10\x01x",
		"command with more frames": helloBytes + readyBytes + dealerReady + "\x05\x01x",
		"oversized frame":          helloBytes + readyBytes + dealerReady + "\x02\x00\x00\x00\x00\x00\x00\x40\x01",
		"frame beyond all numbers": helloBytes + readyBytes + dealerReady + "\x02\xff\xff\xff\xff\xff\xff\xff\xff",
		"oversized READY":          helloBytes + "\x06\x00\x00\x00\x00\x00\x00\x40\x01",
		"PING without TTL":         helloBytes + readyBytes + dealerReady + "\x04\x05\x04PING",
		"PING with a long context": helloBytes + readyBytes + dealerReady + "\x04\x18\x04PING\x00\x00" + strings.Repeat("x", 17),
		"ERROR":                    helloBytes + readyBytes + dealerReady + "\x04\x07\x05ERROR\x00",
	} {
		t.Run(name, func(t *testing.T) {
			for endpoint, drop := range map[string]string{p.Endpoint(): dealerReady, p.ReplayEndpoint(): readyBytes} {
				conn := dial(t, endpoint)
				_, err := io.WriteString(conn, strings.Replace(bytes, readyBytes+dealerReady, strings.Replace(readyBytes+dealerReady, drop, "", 1), 1))
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, conn)
				require.False(t, err != nil && isTimeout(err), "%v: the publisher keeps the connection", err)
			}
			seq := p.Publish([]byte(name))
			requireMessage(t, next(t, messages), "kv", seq, name)
		})
	}
}

// TestHalfOpenHandshakes: beyond the limit of silent connections one more is closed at once,
// and the silent ones after the handshake's time limit.
func TestHalfOpenHandshakes(t *testing.T) {
	const limit = 8
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: anyPort})
	require.NoError(t, err)
	zmq.LimitClients(p, limit)
	start(t, p.Run)
	silent := make([]net.Conn, limit)
	for i := range silent {
		silent[i] = dial(t, p.Endpoint())
		requireBytes(t, silent[i], helloBytes) // It has a slot.
	}
	requireClosed(t, dial(t, p.Endpoint()))
	for _, conn := range silent {
		requireClosed(t, conn)
	}
	sub := subscribe(t, zmq.Subscription{Endpoint: p.Endpoint()})
	next(t, sub.connected)
}

// TestSlowSubscriber: the queue of a subscriber that does not read fills, its messages are
// dropped and counted, and another subscriber receives all. When it reads again, the queued
// messages arrive in order, and then new ones.
func TestSlowSubscriber(t *testing.T) {
	const hwm = 100
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, Topic: "kv", HWM: hwm})
	slow := join(t, p.Endpoint(), asked31)
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 2))
	payload := strings.Repeat("x", 64<<10)
	sent := uint64(0)
	for p.Dropped() < 10*hwm { // 64 MB: kernels buffer less.
		require.Equal(t, sent, p.Publish([]byte(payload)))
		requireMessage(t, next(t, messages), "kv", sent, payload)
		sent++
	}
	message := make([]byte, len(wire("kv", 0, payload)))
	after := uint64(0)
	for range sent - uint64(p.Dropped()) {
		_, err := io.ReadFull(slow, message)
		require.NoError(t, err)
		seq := binary.BigEndian.Uint64(message[6:])
		require.GreaterOrEqual(t, seq, after)
		require.Equal(t, string(wire("kv", seq, payload)), string(message))
		after = seq + 1
	}
	dropped := p.Dropped()
	seq := p.Publish([]byte("after"))
	requireMessage(t, next(t, messages), "kv", seq, "after")
	requireBytes(t, slow, string(wire("kv", seq, "after")))
	require.Equal(t, dropped, p.Dropped())
}

// TestSendQueue: a full queue drops until it is half empty.
func TestSendQueue(t *testing.T) {
	push, take := zmq.SendQueue(4, 64<<10) // Each write takes one message of this size.
	for i := range 10 {
		require.Equal(t, i < 4, push())
	}
	require.Equal(t, 1, take())
	require.False(t, push(), "three of four are queued")
	require.Equal(t, 1, take())
	require.True(t, push(), "two of four are queued")
	require.True(t, push())
	require.False(t, push())
	for range 4 {
		require.Equal(t, 1, take())
	}
	require.Zero(t, take())
}

// TestSlowReplayClient: answers wait in the connection, not in a queue; other clients and the
// live stream go on.
func TestSlowReplayClient(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort})
	const n = 1000
	payload := strings.Repeat("x", 64<<10)
	for range n {
		p.Publish([]byte(payload))
	}
	slow := dial(t, p.ReplayEndpoint())
	_, err := io.WriteString(slow, helloBytes+"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ"+"\x01\x00\x00\x08"+string(seqFrame(0)))
	require.NoError(t, err)
	requireBytes(t, slow, helloBytes+routerReady+string(answer("", 0, payload)))
	require.Len(t, replayAll(t, p.ReplayEndpoint(), 0), n)
	for seq := uint64(1); seq < n; seq++ {
		requireBytes(t, slow, string(answer("", seq, payload)))
	}
	requireBytes(t, slow, string(answer("", 1<<64-1, "")))
}

// TestCloseDuringSend ends a publisher while its writers wait for a subscriber and a replay
// client that do not read. Run returns, and TestMain finds no goroutine left.
func TestCloseDuringSend(t *testing.T) {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: anyPort, ReplayEndpoint: anyPort, Topic: "kv", HWM: 10})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- p.Run(waitCtx(t)) }()
	stuck := join(t, p.Endpoint(), asked31)
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	for p.Dropped() == 0 {
		p.Publish(make([]byte, 64<<10))
	}
	replay := dial(t, p.ReplayEndpoint())
	_, err = io.WriteString(replay, helloBytes+"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ"+"\x01\x00\x00\x08"+string(seqFrame(0)))
	require.NoError(t, err)
	requireBytes(t, replay, helloBytes+routerReady+string(answer("kv", 0, string(make([]byte, 64<<10)))))
	require.NoError(t, p.Close())
	require.NoError(t, next(t, done))
	for _, conn := range []net.Conn{stuck, replay} {
		_, err := io.Copy(io.Discard, conn)
		require.False(t, err != nil && isTimeout(err))
	}
	before := p.Publish(nil)
	require.Equal(t, before+1, p.Publish(nil), "a closed publisher still counts")
}

// TestPublishFromManyGoroutines: a subscriber sees one order, that of the sequence numbers.
func TestPublishFromManyGoroutines(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: anyPort})
	messages, _ := listen(t, zmq.Subscription{Endpoint: p.Endpoint()})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	const writers, each = 8, 500
	for range writers {
		go func() {
			for range each {
				p.Publish([]byte("x"))
			}
		}()
	}
	for seq := range uint64(writers * each) {
		requireMessage(t, next(t, messages), "", seq, "x")
	}
}

// TestStaleSocketFile: a publisher replaces the socket file of a killed process, not that of a
// living one.
func TestStaleSocketFile(t *testing.T) {
	endpoint := freePath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: strings.TrimPrefix(endpoint, "ipc://"), Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	_, err = zmq.NewPublisher(zmq.PublisherConfig{Endpoint: endpoint})
	require.ErrorContains(t, err, "in use")
	require.NoError(t, l.Close())
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: endpoint})
	messages, _ := listen(t, zmq.Subscription{Endpoint: endpoint})
	require.NoError(t, p.WaitSubscriptions(waitCtx(t), 1))
	p.Publish([]byte("x"))
	requireMessage(t, next(t, messages), "", 0, "x")
}

// TestPublisherEndpoints: the addresses that a publisher reports, and those that it refuses.
func TestPublisherEndpoints(t *testing.T) {
	p, _ := newPublisher(t, zmq.PublisherConfig{Endpoint: "tcp://*:*", ReplayEndpoint: "tcp://127.0.0.1:0"})
	require.Regexp(t, `^tcp://0\.0\.0\.0:[1-9]\d*$`, p.Endpoint()) // As libzmq reports it.
	require.Regexp(t, `^tcp://127\.0\.0\.1:[1-9]\d*$`, p.ReplayEndpoint())
	for _, endpoint := range []string{"pgm://x", "tcp://127.0.0.1:x", ""} {
		_, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: endpoint})
		require.ErrorContains(t, err, "zmq: endpoint", endpoint)
	}
}
