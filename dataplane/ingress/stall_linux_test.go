package ingress_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// endless is a body without an end.
type endless struct{ closed chan struct{} }

func (b *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func (b *endless) Close() error {
	close(b.closed)
	return nil
}

// TestStalledClients: a client that takes nothing of its answer is cut, and its answer ends. Beside
// it a client that takes little is served for as long.
func TestStalledClients(t *testing.T) { tlstest.OverBoth(t, testStalledClients) }

func testStalledClients(t *testing.T) {
	t.Helper()
	var err error
	for stall := 300 * time.Millisecond; stall < time.Minute; stall *= 5 { // a busy machine slows the slow one further
		if err = stallBeside(t, stall); err == nil {
			return
		}
	}
	t.Error(err)
}

// startLargeAnswers starts a server of a stream without an end, at /endless, and of a whole answer of 64 MiB.
func startLargeAnswers(t *testing.T, limits ingress.Limits) (ln net.Listener, body *endless, closed chan ingress.Reason) {
	t.Helper()
	ln, body = ingresstest.Listen(t), &endless{make(chan struct{})}
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/endless" {
			ctx.SetBodyStream(body, -1)
			return
		}
		ctx.SetBodyString(strings.Repeat("x", 64<<20))
	}, withLimits(limits), func(c *ingress.Config) { closed = closures(c) })
	return ln, body, closed
}

// stallBeside wants a client to be cut that takes nothing. The error is that a slow one was cut.
func stallBeside(t *testing.T, stall time.Duration) error {
	t.Helper()
	ln, body, closed := startLargeAnswers(t, ingress.Limits{Stall: stall})
	slow, _ := dial(t, ln)
	shrink(t, slow)
	say(t, slow, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	stalled, _ := dial(t, ln)
	shrink(t, stalled)
	say(t, stalled, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
	ended := make(chan error, 1)
	stop := make(chan struct{})
	go func() { // 100 KB a second, far from a third of the server's buffer
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.ReadFull(slow, make([]byte, 1<<10)); err != nil {
				ended <- err
				return
			}
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
		}
	}()
	ingresstest.Await(t, "end of the stalled answer", body.closed)
	<-time.After(stall) // the slow one may have begun later
	close(stop)
	if err := <-ended; err != nil {
		return fmt.Errorf("%w: a slow client was cut: %w", errUnwanted, err)
	}
	require.Equal(t, ingress.ReasonStalled, <-closed)
	require.Empty(t, closed)
	_, err := io.Copy(io.Discard, stalled)
	require.Error(t, err, "a part passes for the whole")
	var ne net.Error
	require.False(t, errors.As(err, &ne) && ne.Timeout(), "the connection is open")
	return nil
}

// TestSlowReadersOfWholeAnswers: a client that takes 1 KiB at a time of an answer that the router holds as a
// whole is cut, though it takes bytes all the time, and its answer's memory is free. One that takes as little of a
// stream is served.
func TestSlowReadersOfWholeAnswers(t *testing.T) { tlstest.OverBoth(t, testSlowReadersOfWholeAnswers) }

func testSlowReadersOfWholeAnswers(t *testing.T) {
	t.Helper()
	ln, body, closed := startLargeAnswers(t, ingress.Limits{Stall: time.Minute, Arrival: time.Second, Rate: 1 << 30})
	stream, _ := dial(t, ln)
	shrink(t, stream)
	say(t, stream, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
	slow, _ := dial(t, ln)
	shrink(t, slow)
	say(t, slow, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	piece := make([]byte, 1<<10)
	for err, tick := error(nil), time.Tick(10*time.Millisecond); err == nil; <-tick {
		_, err = io.ReadFull(slow, piece)
		_, other := io.ReadFull(stream, piece)
		require.NoError(t, other)
	}
	require.Equal(t, ingress.ReasonStalled, <-closed)
	require.Empty(t, closed)
	require.NoError(t, stream.Close())
	ingresstest.Await(t, "end of the stream", body.closed)
}

// shrink gives a client little room for bytes that it has not read.
func shrink(t *testing.T, conn net.Conn) {
	t.Helper()
	if s, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if h, ok := conn.(interface{ Handshake() error }); ok {
			require.NoError(t, h.Handshake())
		}
		conn = s.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4<<10))
}
