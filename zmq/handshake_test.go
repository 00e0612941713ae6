package zmq_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/zmq"
)

// Exact bytes of a subscriber for publishers of ZMTP 3.1 and 3.0.
var (
	helloBytes = "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f" + "\x03\x01" + "NULL" + strings.Repeat("\x00", 16) + "\x00" + strings.Repeat("\x00", 31)
	readyBytes = "\x04\x19" + "\x05READY" + "\x0bSocket-Type" + "\x00\x00\x00\x03SUB"
	asked31    = "\x04\x0c" + "\x09SUBSCRIBE" + "kv"
	asked30    = "\x00\x03" + "\x01kv"
	// Bytes of a publisher.
	peerHello = "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f" + "\x03\x01" + "NULL" + strings.Repeat("\x00", 48)
	peerReady = "\x04\x19" + "\x05READY" + "\x0bSocket-Type" + "\x00\x00\x00\x03PUB"
)

// scripted is a peer that runs a script on each connection.
func scripted(t testing.TB, script func(conn net.Conn)) (endpoint string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			script(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return "tcp://" + l.Addr().String()
}

// greetAs does a publisher's half of a handshake and returns the bytes of the subscriber.
func greetAs(conn net.Conn, hello, ready string, asked int) (said string) {
	_, _ = io.WriteString(conn, hello+ready)
	b := make([]byte, len(helloBytes)+len(readyBytes)+asked)
	n, _ := io.ReadFull(conn, b)
	return string(b[:n])
}

func TestHandshakeTranscript(t *testing.T) {
	for hello, asked := range map[string]string{
		peerHello: asked31,
		strings.Replace(peerHello, "\x03\x01NULL", "\x03\x00NULL", 1): asked30,
		strings.Replace(peerHello, "\x03\x01NULL", "\x03\x02NULL", 1): asked31, // A later version: we stay at 3.1.
	} {
		said := make(chan string, 1)
		endpoint := scripted(t, func(conn net.Conn) {
			said <- greetAs(conn, hello, peerReady, len(asked))
			_, _ = conn.Write(wire("kv", 1, "x"))
			_, _ = conn.Read(make([]byte, 1)) // Until it leaves.
		})
		messages, stop := listen(t, zmq.Subscription{Endpoint: endpoint, Topic: "kv"})
		require.Equal(t, helloBytes+readyBytes+asked, next(t, said))
		requireMessage(t, next(t, messages), "kv", 1, "x")
		stop()
	}
}

// TestStrangers: the error about a peer that is not a publisher names the likely mistake.
func TestStrangers(t *testing.T) {
	say := func(s string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = io.WriteString(conn, s)
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	after := func(s string) func(net.Conn) {
		return func(conn net.Conn) {
			greetAs(conn, peerHello, peerReady, len(asked31))
			say(s)(conn)
		}
	}
	curve := strings.Replace(peerHello, "NULL\x00", "CURVE", 1)
	tests := []struct {
		name, want string
		script     func(net.Conn)
	}{
		{"web server", "not of HTTP", say("HTTP/1.1 400 Bad Request\r\n\r\n")},
		{"garbage", "not of HTTP", say("\x00\x01\x02")},
		{"hangs up", "hung up", func(net.Conn) {}},
		{"hangs up later", "hung up", func(conn net.Conn) {
			_, _ = io.WriteString(conn, peerHello[:20])
			_, _ = conn.Read(make([]byte, len(helloBytes)))
		}},
		{"ZMTP 1", "libzmq 2", say("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00")},
		{"ZMTP 2", "libzmq 3", say("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x01")},
		{"security", "CURVE", say(curve)},
		{"another kind of socket", "port of the replay", say(peerHello + "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER")},
		{"no kind of socket", "Socket-Type", say(peerHello + "\x04\x06\x05READY")},
		{"metadata cut short", "Socket-Type", say(peerHello + "\x04\x13\x05READY\x0bSocket-Ty\x00\x00\x00")},
		{"metadata of no length", "Socket-Type", say(peerHello + "\x04\x16\x05READY\x0bSocket-Type\xff\xff\xff\xff")},
		{"refuses", "not today", say(peerHello + "\x04\x10\x05ERROR\x09not today")},
		{"another command", "want READY", say(peerHello + "\x04\x06\x05HELLO")},
		{"message too soon", "before READY", say(peerHello + "\x00\x01x" + peerReady)},
		{"refuses later", "not today", after("\x04\x10\x05ERROR\x09not today")},
		{"frame of flags unknown", "flags", after("\x10\x01x")},
		{"huge frame", "limit", after("\x02\x00\x00\x00\x01\x00\x00\x00\x00")},
		{"frame beyond all numbers", "limit", after("\x02\xff\xff\xff\xff\xff\xff\xff\xff")},
		{"huge command", "limit", after("\x06\x00\x00\x00\x00\x00\x10\x00\x00")},
		{"PING without a time to live", "PING", after("\x04\x05\x04PING")},
		{"PING with a long context", "PING", after("\x04\x18\x04PING\x00\x00" + strings.Repeat("x", 17))},
	}
	var subs []*subscription
	for _, tt := range tests { // All at once: most of it is waiting.
		subs = append(subs, subscribe(t, zmq.Subscription{Endpoint: scripted(t, tt.script), Topic: "kv"}))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 3 { // It tries again.
				err := next(t, subs[i].disconnected)
				require.ErrorContains(t, err, tt.want)
				require.Equal(t, tt.want != "hung up", errors.Is(err, zmq.ErrProtocol))
			}
			require.Empty(t, subs[i].messages)
		})
	}
}

// TestSilentPeer: a peer that accepts and sends nothing, like an HTTP server waiting for a
// request.
func TestSilentPeer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		begin := time.Now()
		_, err := zmq.Handshake(here, "")
		require.ErrorIs(t, err, zmq.ErrProtocol)
		require.ErrorContains(t, err, "HTTP")
		require.Equal(t, zmq.HandshakeTimeout, time.Since(begin))
		require.NoError(t, here.Close())
	})
}

// TestDrip: a handshake and messages that come byte by byte.
func TestDrip(t *testing.T) {
	stream := peerHello + peerReady + string(wire("kv", 1, "x")) + "\x04\x07\x04PING\x00\x00" + string(wire("kv", 2, strings.Repeat("y", 300)))
	said := make(chan string, 1)
	endpoint := scripted(t, func(conn net.Conn) {
		for i := range len(stream) {
			_, _ = io.WriteString(conn, stream[i:i+1])
		}
		want := helloBytes + readyBytes + asked31 + "\x04\x05\x04PONG"
		b := make([]byte, len(want))
		n, _ := io.ReadFull(conn, b)
		said <- string(b[:n])
	})
	messages, stop := listen(t, zmq.Subscription{Endpoint: endpoint, Topic: "kv"})
	requireMessage(t, next(t, messages), "kv", 1, "x")
	requireMessage(t, next(t, messages), "kv", 2, strings.Repeat("y", 300))
	require.Equal(t, helloBytes+readyBytes+asked31+"\x04\x05\x04PONG", next(t, said))
	stop()
}

// TestDelay: the first attempt follows soon, later ones are rare, and none follows at once.
func TestDelay(t *testing.T) {
	for range 100 {
		require.LessOrEqual(t, zmq.Delay(0, io.EOF), 100*time.Millisecond)
		for failures := range 100 {
			for err, longest := range map[error]time.Duration{io.EOF: zmq.ReconnectMax, zmq.ErrProtocol: zmq.WrongPeerMax} {
				d := zmq.Delay(failures, err)
				if d < 25*time.Millisecond || d > longest || failures > 10 && d < longest/2 {
					t.Fatalf("%v after %d failures, the last %v", d, failures, err)
				}
			}
		}
	}
}

// TestHeartbeat: a silent peer is sent a PING, and given up if no PONG follows.
func TestHeartbeat(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	said := make(chan string, 16)
	go func() {
		defer close(said)
		b := make([]byte, 64)
		for n, err := there.Read(b); err == nil; n, err = there.Read(b) {
			said <- string(b[:n])
		}
	}()
	now := time.Now()
	heard, beat := zmq.Beat(here)
	for range 3 {
		heard()
		require.NoError(t, beat(now))
		now = now.Add(zmq.HeartbeatEvery)
		require.NoError(t, beat(now))
		require.Equal(t, "\x04\x07\x04PING\x00\x00", next(t, said))
		require.NoError(t, beat(now.Add(zmq.HeartbeatEvery-1)), "not yet")
		now = now.Add(zmq.HeartbeatEvery)
	}
	heard()
	require.NoError(t, beat(now))
	require.NoError(t, beat(now.Add(zmq.HeartbeatEvery)))
	require.ErrorContains(t, beat(now.Add(2*zmq.HeartbeatEvery)), "silent")
	require.NoError(t, here.Close())
	for range said { // One PING.
		continue
	}
}

// TestCancelInHandshake: cancellation does not wait for a silent peer.
func TestCancelInHandshake(t *testing.T) {
	accepted := make(chan struct{}, 1)
	endpoint := scripted(t, func(conn net.Conn) {
		accepted <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- zmq.Subscribe(ctx, zmq.Subscription{Endpoint: endpoint, OnMessage: func(zmq.Message) {}})
	}()
	next(t, accepted)
	cancel()
	require.NoError(t, next(t, done))
}
