package ingress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// timedConn has a byte to read at any time before its deadline, and counts how often it was
// told of one.
type timedConn struct {
	net.Conn
	deadline time.Time
	told     int
}

func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	c.told++
	return nil
}

func (c *timedConn) Read(p []byte) (int, error) {
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return 0, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	}
	p[0] = 'x'
	return 1, nil
}

// TestArrival: the time for a request grows with the bytes that have come, and starts again
// with the next one.
func TestArrival(t *testing.T) {
	c := &timedConn{}
	cl := &Client{Conn: c, s: NewServer(Config{}), limit: readLimit{grace: defaultArrival, rate: defaultRate}}
	read := func() {
		t.Helper()
		_, err := cl.Read(make([]byte, 100))
		require.NoError(t, err)
	}
	before := time.Now()
	read()
	require.WithinRange(t, cl.limit.due(), before.Add(defaultArrival), time.Now().Add(defaultArrival+time.Millisecond))
	require.Equal(t, 1, c.told)
	first := cl.limit.due()
	for range defaultRate {
		read()
	}
	require.Equal(t, first.Add(time.Second), cl.limit.due(), "a second more")
	require.Equal(t, 1, c.told, "the poller is told once")
	c.deadline = time.Unix(1, 0) // the one that the poller knows has passed
	read()
	require.Equal(t, 2, c.told, "there is time left")
	cl.limit.since = time.Now().Add(-defaultArrival - 2*time.Second) // as if it had begun then
	c.deadline = time.Unix(1, 0)
	_, err := cl.Read(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.True(t, cl.limit.late)
	noteState(cl, fasthttp.StateIdle)
	require.False(t, cl.limit.late)
	require.True(t, cl.limit.since.IsZero(), "another request")
}

// slowServer serves with a short grace until the test ends; its handler echoes.
func slowServer(t *testing.T) (addr string) {
	t.Helper()
	w, err := NewWatcher()
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(Config{
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Request.Body()) },
		Refuse: func(ctx *fasthttp.RequestCtx, err error) {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			if errors.Is(err, ErrSlowRequest) {
				ctx.SetStatusCode(fasthttp.StatusRequestTimeout)
			}
		},
		MaxBody: func() int { return 1 << 20 }, MaxHead: 16 << 10, Watcher: w, Limits: func() Limits { return Limits{Arrival: 200 * time.Millisecond} }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	wg.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		stop()
		wg.Wait()
	})
	return ln.Addr().String()
}

// TestSlowRequests: a client that sends next to nothing of a request is told so and
// disconnected, wherever the request stopped; a client that is idle between two requests is
// not.
func TestSlowRequests(t *testing.T) {
	addr := slowServer(t)
	tests := map[string]string{
		"a head":           "POST / HTTP/1.1\r\nHost: x\r\n",
		"a line":           "POS",
		"a body":           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf of it",
		"nothing of it":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n",
		"a long body":      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("x", 20000),
		"chunks":           "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"a chunk":          "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhel",
		"a chunk's length": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5",
	}
	const whole = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
	var wg sync.WaitGroup
	for name, begin := range tests {
		for _, before := range []string{"", whole} {
			wg.Go(func() {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				br := bufio.NewReader(conn)
				if before != "" {
					_, _ = io.WriteString(conn, before)
					if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != http.StatusOK {
						t.Errorf("%s: %v %v", name, r, err)
						return
					}
					_, _ = br.Discard(len("hello"))
				}
				_, _ = io.WriteString(conn, begin)
				r, err := http.ReadResponse(br, nil)
				if err != nil || r.StatusCode != http.StatusRequestTimeout {
					t.Errorf("%s: %v %v, want 408", name, r, err) // by ErrorHandler: fasthttp's own words are about syntax
					return
				}
				_ = r.Body.Close()
				if _, err := io.Copy(io.Discard, br); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s: %v, want the end", name, err)
				}
			})
		}
	}
	wg.Wait()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	br := bufio.NewReader(conn)
	for range 2 {
		_, err = io.WriteString(conn, whole)
		require.NoError(t, err)
		r, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		require.Equal(t, 200, r.StatusCode)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond))) // more than the grace
		_, err = br.ReadByte()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "what is idle may be")
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
	}
}
