//go:build libzmq

package zmq_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	zmq4 "github.com/pebbe/zmq4"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// curvePair is a key pair.
type curvePair struct{ public, secret string }

func newCurvePair(t *testing.T) curvePair {
	t.Helper()
	public, secret, err := zmq4.NewCurveKeypair()
	require.NoError(t, err)
	return curvePair{public, secret}
}

// withCurve makes the streams of this test use keys.
func withCurve(t *testing.T, server, own curvePair) (path string) {
	t.Helper()
	return curveFile(t, "server-key "+server.public, "public-key "+own.public, "secret-key "+own.secret)
}

// curveServer opens a socket of libzmq that takes clients with CURVE alone.
func curveServer(t *testing.T, kind zmq4.Type, own curvePair, more ...func(*zmq4.Socket) error) (s *zmq4.Socket, endpoint string) {
	t.Helper()
	return rawSocket(t, kind, append(more,
		func(s *zmq4.Socket) error { return s.SetCurveServer(1) },
		func(s *zmq4.Socket) error { return s.SetCurveSecretkey(own.secret) },
	)...)
}

func TestCurveStream(t *testing.T) {
	server := newCurvePair(t)
	path := withCurve(t, server, newCurvePair(t))
	text, err := zmq.Curve()
	require.NoError(t, err)
	require.Regexp(t, `^libzmq \d+\.\d+\.\d+, keys from `+path+`$`, text)

	raw, endpoint := curveServer(t, zmq4.XPUB, server)
	malformed, ticks := make(chan int, 16), make(chan struct{}, 1)
	sub := subscribe(t, zmq.Subscription{
		Endpoint: endpoint, Topic: "kv", OnMalformed: func(n int) { malformed <- n },
		Every: time.Millisecond, OnTick: func() {
			select {
			case ticks <- struct{}{}:
			default:
			}
		},
	})
	next(t, sub.connected)
	asked, err := raw.RecvBytes(0)
	require.NoError(t, err)
	require.Equal(t, "\x01kv", string(asked))
	next(t, ticks)
	const n = 1000
	for i := range uint64(n) {
		_, err := raw.SendMessage("kv-events", seqFrame(i), strings.Repeat("x", int(i)*100))
		require.NoError(t, err)
	}
	for i := range uint64(n) {
		requireMessage(t, next(t, sub.messages), "kv-events", i, strings.Repeat("x", int(i)*100))
	}
	for _, parts := range [][]any{{"kv"}, {"kv", "short", "x"}, {"kv", seqFrame(1), "x", "x", "x", "x", "x"}} {
		_, err := raw.SendMessage(parts...)
		require.NoError(t, err)
		require.Equal(t, len(parts), next(t, malformed))
	}
	next(t, ticks)
	require.Empty(t, sub.disconnected)
	sub.stop()
}

// TestCurveRestart: each connection has a socket of its own, and the end of one is reported.
func TestCurveRestart(t *testing.T) {
	server := newCurvePair(t)
	withCurve(t, server, newCurvePair(t))
	first, endpoint := curveServer(t, zmq4.XPUB, server)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint})
	next(t, sub.connected)
	_, err := first.RecvBytes(0)
	require.NoError(t, err)
	_, err = first.SendMessage("", seqFrame(7), "before")
	require.NoError(t, err)
	requireMessage(t, next(t, sub.messages), "", 7, "before")
	require.NoError(t, first.Unbind(endpoint))
	require.NoError(t, first.Close())
	require.ErrorContains(t, next(t, sub.disconnected), "hung up")

	second, err := zmq4.NewSocket(zmq4.XPUB)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	require.NoError(t, second.SetCurveServer(1))
	require.NoError(t, second.SetCurveSecretkey(server.secret))
	for deadline := time.Now().Add(patience); ; { // The first socket ends in the background.
		if err = second.Bind(endpoint); err == nil || time.Now().After(deadline) {
			break
		}
	}
	require.NoError(t, err)
	next(t, sub.connected)
	_, err = second.RecvBytes(0)
	require.NoError(t, err)
	_, err = second.SendMessage("", seqFrame(0), "after")
	require.NoError(t, err)
	requireMessage(t, next(t, sub.messages), "", 0, "after")
}

// TestCurveEndsOfManyStreams: one I/O thread of libzmq serves all streams of a process, so neither
// a stopped stream nor a publisher that leaves, at any time, stops the others.
func TestCurveEndsOfManyStreams(t *testing.T) {
	server := newCurvePair(t)
	withCurve(t, server, newCurvePair(t))
	leaving := scripted(t, func(net.Conn) {}) // It hangs up before the handshake.
	ctx := waitCtx(t)
	failures := make(chan error)
	for range 400 {
		go func() {
			_, err := zmq.Replay(ctx, leaving, 0, ignore)
			failures <- err
		}()
	}
	for range 400 {
		require.ErrorContains(t, next(t, failures), "CURVE handshake")
	}
	for range 10 {
		raw, endpoint := curveServer(t, zmq4.XPUB, server)
		streams := make([]*subscription, 20)
		for i := range streams {
			streams[i] = subscribe(t, zmq.Subscription{Endpoint: endpoint})
			next(t, streams[i].connected)
		}
		require.NoError(t, raw.Close()) // At the same time as the streams.
		for _, s := range streams {
			s.stop()
		}
	}
	raw, endpoint := curveServer(t, zmq4.XPUB, server)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint})
	next(t, sub.connected)
	_, err := raw.RecvBytes(0)
	require.NoError(t, err)
	_, err = raw.SendMessage("", seqFrame(1), "after")
	require.NoError(t, err)
	requireMessage(t, next(t, sub.messages), "", 1, "after")
}

// TestCurveStrangers: without the right keys no message arrives, and the reason is reported.
func TestCurveStrangers(t *testing.T) {
	server := newCurvePair(t)
	path := withCurve(t, newCurvePair(t), newCurvePair(t)) // Another server's key.
	raw, endpoint := curveServer(t, zmq4.XPUB, server)
	sub := subscribe(t, zmq.Subscription{Endpoint: endpoint})
	require.ErrorContains(t, next(t, sub.disconnected), "CURVE handshake")
	require.Empty(t, sub.connected)

	_, unencrypted := rawSocket(t, zmq4.XPUB) // Without CURVE.
	plain := subscribe(t, zmq.Subscription{Endpoint: unencrypted})
	require.ErrorIs(t, next(t, plain.disconnected), zmq.ErrProtocol)
	require.Empty(t, plain.connected)

	own := newCurvePair(t) // New keys need no restart.
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "server-key %s\npublic-key %s\nsecret-key %s\n", server.public, own.public, own.secret), 0o600))
	next(t, sub.connected)
	_, err := raw.RecvBytes(0)
	require.NoError(t, err)

	// The other way round: our subscriber without CURVE finds out at a publisher with it.
	t.Setenv(zmq.EnvCurve, "")
	null := subscribe(t, zmq.Subscription{Endpoint: endpoint})
	require.ErrorContains(t, next(t, null.disconnected), "CURVE")
}

func TestCurveReplay(t *testing.T) {
	server := newCurvePair(t)
	withCurve(t, server, newCurvePair(t))
	router, endpoint := curveServer(t, zmq4.ROUTER, server)
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
	for _, round := range []struct{ from, end uint64 }{{3, 2000}, {2000, 2100}} { // The first end marker is lost.
		request, err := router.RecvMessageBytes(0)
		require.NoError(t, err)
		require.Equal(t, [][]byte{{}, seqFrame(round.from)}, request[1:])
		for seq := round.from; seq < round.end; seq++ {
			parts := []any{request[0], "", "t", seqFrame(seq), "payload"}
			if round.from == 2000 {
				parts = []any{request[0], "", seqFrame(seq), "payload"} // Of SGLang up to 0.5.15.
			}
			_, err := router.SendMessage(parts...)
			require.NoError(t, err)
		}
		if round.from == 2000 {
			_, err := router.SendMessage(request[0], "", "", seqFrame(1<<64-1), "")
			require.NoError(t, err)
		}
	}
	r := next(t, done)
	require.NoError(t, r.err)
	require.Len(t, r.seqs, 2097)
	for i, seq := range r.seqs {
		require.EqualValues(t, 3+i, seq)
	}
}

func TestCurveReplayMalformed(t *testing.T) {
	server := newCurvePair(t)
	withCurve(t, server, newCurvePair(t))
	for _, parts := range [][]any{{"x"}, {"", seqFrame(1)}, {"", "", "1234567", "payload"}, {"", "", seqFrame(1), "payload", "more"}} {
		router, endpoint := curveServer(t, zmq4.ROUTER, server)
		done := make(chan error, 1)
		go func() {
			_, err := zmq.Replay(waitCtx(t), endpoint, 7, ignore)
			done <- err
		}()
		request, err := router.RecvMessageBytes(0)
		require.NoError(t, err)
		_, err = router.SendMessage(append([]any{request[0]}, parts...)...)
		require.NoError(t, err)
		require.ErrorIs(t, next(t, done), zmq.ErrMalformed)
	}
	enough := errors.New("enough")
	router, endpoint := curveServer(t, zmq4.ROUTER, server)
	done := make(chan error, 1)
	go func() {
		_, err := zmq.Replay(waitCtx(t), endpoint, 0, func(zmq.Message) error { return enough })
		done <- err
	}()
	request, err := router.RecvMessageBytes(0)
	require.NoError(t, err)
	_, err = router.SendMessage(request[0], "", "t", seqFrame(1), "payload")
	require.NoError(t, err)
	require.ErrorIs(t, next(t, done), enough)
}
