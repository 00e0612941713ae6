package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
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

// slowConn is a connection whose bytes come one by one, each after the wait for it has been told of.
type slowConn struct {
	deadlineConn
	silent bool
}

func (c *slowConn) Read(p []byte) (int, error) {
	if c.silent {
		c.deadline = time.Unix(1, 0)
	}
	return c.deadlineConn.Read(p)
}

// TestArrival: what a request is given grows with what has come of it, and starts again with the next one.
func TestArrival(t *testing.T) {
	c := &slowConn{}
	cl := &Client{Conn: c, w: &Watcher{}}
	read := func(n int) {
		t.Helper()
		_, err := cl.Read(make([]byte, n))
		require.NoError(t, err)
	}
	read(1)
	require.True(t, cl.due().IsZero(), "the first byte of a request may take its time")
	require.Zero(t, c.told, "what comes in one piece costs nothing")
	before := time.Now()
	read(100)
	require.WithinRange(t, cl.due(), before.Add(DefaultGrace), time.Now().Add(DefaultGrace+time.Millisecond))
	require.Equal(t, 1, c.told)
	first := cl.due()
	for range 1024 {
		read(100)
	}
	require.Equal(t, first.Add(time.Second), cl.due(), "1 KiB is a second more")
	require.Equal(t, 1, c.told, "the poller is told once")
	cl.arrival.since = time.Now().Add(-DefaultGrace - 2*time.Second) // as if it had begun then
	c.silent = true
	_, err := cl.Read(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	cl.arrival.got = 10 << 10 // as if that much had come
	c.silent = false
	read(100)
	read(1)
	require.True(t, cl.due().IsZero(), "another request")
	read(100)
	require.Greater(t, time.Until(cl.due()), DefaultGrace-time.Second*20)
	require.EqualValues(t, 1, cl.arrival.got)
	require.NoError(t, cl.SetReadDeadline(time.Unix(1, 0)))
	require.Equal(t, time.Unix(1, 0), cl.due(), "the earlier one counts")
}

// slowServer serves with a short grace until the test ends; its handler echoes.
func slowServer(t *testing.T) (addr string) {
	t.Helper()
	w, err := NewWatcher()
	require.NoError(t, err)
	w.Grace(200 * time.Millisecond)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) },
		ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			if ClientOf(ctx.Conn()).Late() {
				ctx.SetStatusCode(fasthttp.StatusRequestTimeout)
			}
		},
		ReduceMemoryUsage: true,
		IdleTimeout:       time.Minute,
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	wg.Go(func() { _ = s.Serve(w.Listen(ln)) })
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown())
		stop()
		wg.Wait()
	})
	return ln.Addr().String()
}

// TestSlowRequests: who sends next to nothing is told so and let go, whatever part of a request it is; who is idle between two requests is not.
func TestSlowRequests(t *testing.T) {
	addr := slowServer(t)
	tests := map[string]string{
		"a head":           "POST / HTTP/1.1\r\nHost: x\r\n",
		"a line":           "POS",
		"a TLS hello":      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
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
