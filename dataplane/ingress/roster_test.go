package ingress_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

const health = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"

// closures are what a Server tells of connections that it closes.
func closures(c *ingress.Config) chan ingress.Reason {
	ch := make(chan ingress.Reason, 100)
	c.Closed = func(r ingress.Reason) { ch <- r }
	return ch
}

// crowded serves at most 4 clients, with a reserve of 2. The handler holds /slow until release.
func crowded(t *testing.T, limits ingress.Limits) (ln net.Listener, s *ingress.Server, begun, release chan struct{}, closed chan ingress.Reason) {
	t.Helper()
	ln, begun, release = ingresstest.Listen(t), make(chan struct{}, 10), make(chan struct{})
	s = ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			begun <- struct{}{}
			<-release
		}
		echo(ctx)
	}, withLimits(limits), func(c *ingress.Config) {
		c.MaxClients, c.Reserve = 4, 2
		c.Reserved = func(path []byte) bool { return string(path) == "/health" }
		closed = closures(c)
	})
	return ln, s, begun, release, closed
}

// ends waits for the end of a connection without an answer.
func ends(t *testing.T, br *bufio.Reader) {
	t.Helper()
	_, err := br.ReadByte()
	if !errors.Is(err, syscall.ECONNRESET) {
		require.ErrorIs(t, err, io.EOF)
	}
}

// TestSilentClientsMakeRoom: beyond the limit those connections are closed that wait for a request,
// first those that never sent one, then those that have waited longest.
func TestSilentClientsMakeRoom(t *testing.T) { tlstest.OverBoth(t, testSilentClientsMakeRoom) }

func testSilentClientsMakeRoom(t *testing.T) {
	t.Helper()
	ln, s, begun, release, closed := crowded(t, ingress.Limits{})
	open := func(send string) *bufio.Reader {
		conn, br := dial(t, ln)
		say(t, conn, send)
		return br
	}
	busy := open("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	waits := func(br *bufio.Reader) { // its connection waits for the next request
		_, body := answer(t, br)
		require.Equal(t, asked, body)
		require.Eventually(t, func() bool { return s.Busy() == 1 }, ingresstest.Patience, time.Millisecond)
	}
	idle := open(ask)
	waits(idle)
	younger := open(ask)
	waits(younger)
	silent, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	require.Eventually(t, func() bool { return s.Connections() == 4 }, ingresstest.Patience, time.Millisecond)
	for _, gone := range []*bufio.Reader{bufio.NewReader(silent), idle, younger} {
		waits(open(ask))
		ends(t, gone)
		require.Equal(t, ingress.ReasonRoom, <-closed)
	}
	close(release)
	_, body := answer(t, busy)
	require.Equal(t, "GET /slow ", body)
	require.Empty(t, closed)
}

// TestReserve: where all connections have requests under way, those for the reserve are answered
// and others get ErrFull, until there is room.
func TestReserve(t *testing.T) { tlstest.OverBoth(t, testReserve) }

func testReserve(t *testing.T) {
	t.Helper()
	ln, s, begun, release, closed := crowded(t, ingress.Limits{})
	var busy []*bufio.Reader
	for range 4 {
		conn, br := dial(t, ln)
		say(t, conn, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
		<-begun
		busy = append(busy, br)
	}
	status := func(send string) (int, bool) {
		conn, br := dial(t, ln)
		defer conn.Close()
		say(t, conn, send)
		r, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode, r.Close
	}
	for range 5 {
		code, ended := status(health)
		assert.Equal(t, http.StatusOK, code)
		assert.True(t, ended, "a place in the reserve is for one request")
		code, ended = status(ask)
		assert.Equal(t, http.StatusServiceUnavailable, code)
		assert.True(t, ended)
		assert.Equal(t, ingress.ReasonFull, <-closed)
	}
	require.Eventually(t, func() bool { return s.Connections() == 4 }, ingresstest.Patience, time.Millisecond)
	// Silence and half requests fill the reserve: the oldest of them goes.
	var half []*bufio.Reader
	for i := range 3 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		if i == 1 && !tlstest.Encrypted(t) {
			say(t, conn, "GET /hea")
		}
		half = append(half, bufio.NewReader(conn))
		require.Eventually(t, func() bool { return s.Connections() == min(5+i, 6) }, ingresstest.Patience, time.Millisecond)
	}
	ends(t, half[0])
	code, _ := status(health)
	assert.Equal(t, http.StatusOK, code)
	ends(t, half[1])
	close(release)
	for _, br := range busy {
		answer(t, br)
	}
	conn, br := dial(t, ln)
	say(t, conn, ask)
	code, _ = answer(t, br)
	assert.Equal(t, http.StatusOK, code)
}

// TestPerAddress: an address has as many connections as the limit says, and another one when one
// of them has ended.
func TestPerAddress(t *testing.T) {
	ln, s, _, _, closed := crowded(t, ingress.Limits{PerAddress: 2})
	one, br := dial(t, ln)
	for range 2 {
		say(t, one, ask)
		answer(t, br)
	}
	two, br2 := dial(t, ln)
	say(t, two, ask)
	answer(t, br2)
	_, more := dial(t, ln)
	ends(t, more)
	require.Equal(t, ingress.ReasonAddress, <-closed)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := from.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer other.Close()
	say(t, other, ask)
	_, body := answer(t, bufio.NewReader(other))
	require.Equal(t, asked, body)
	require.NoError(t, one.Close())
	require.Eventually(t, func() bool { return s.Connections() == 2 }, ingresstest.Patience, time.Millisecond)
	again, br3 := dial(t, ln)
	say(t, again, ask)
	_, body = answer(t, br3)
	require.Equal(t, asked, body)
}

// TestIdleReasons: connections that are closed for their silence are counted as what they are.
func TestIdleReasons(t *testing.T) {
	ln, _, _, _, closed := crowded(t, ingress.Limits{Idle: 50 * time.Millisecond, Arrival: 50 * time.Millisecond})
	_, silent := dial(t, ln)
	ends(t, silent)
	require.Equal(t, ingress.ReasonSilent, <-closed)
	conn, br := dial(t, ln)
	say(t, conn, ask)
	answer(t, br)
	ends(t, br)
	require.Equal(t, ingress.ReasonIdle, <-closed)
	conn, br = dial(t, ln)
	say(t, conn, "GET /")
	status, _ := answer(t, br)
	require.Equal(t, http.StatusRequestTimeout, status)
	require.Equal(t, ingress.ReasonSlow, <-closed)
}
