package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// relayed notes which pieces went from socket to socket.
type relayed struct {
	recorder
	mu    sync.Mutex
	begun bool // of the pieces, one was relayed
}

func (o *relayed) Body(p []byte) {
	stack := make([]byte, 8<<10)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorder.Body(p)
	o.begun = o.begun || bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("(*relay).take"))
}

func (o *relayed) seen() (body string, begun bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.body), o.begun
}

// relayRouter forwards requests from a Watcher's listener to one worker; c cancels them. The
// sockets to clients take little at once.
func relayRouter(t testing.TB, worker string, obs upstream.Observer, c *upstream.Canceler, readTimeout time.Duration) *client {
	t.Helper()
	little := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10) })
	}}
	ln, err := little.Listen(context.Background(), "tcp", natstest.Address(t))
	require.NoError(t, err)
	tr := newTransport(t, upstream.Config{})
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		req := post(worker, "{}")
		req.ReadTimeout = readTimeout
		resp, err := tr.Do(c, req)
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		upstream.Forward(ctx, resp, obs, time.Now())
	})
	return dialRouter(t, ln.Addr().String())
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunkOf(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// TestRelayMovesBytes cuts answers anywhere, with pieces of any size.
func TestRelayMovesBytes(t *testing.T) {
	r, noise := rand.New(rand.NewPCG(1, 2)), rand.NewChaCha8([32]byte{1})
	for round := range 12 {
		size := []int{300, 5_000, 40_000, 9}[round%4]
		var text strings.Builder
		var wire []byte
		for range min(400, 2_000_000/size) { // more bytes only take longer
			b := make([]byte, 1+r.IntN(size))
			_, _ = noise.Read(b)
			text.Write(b)
			wire = append(wire, chunkOf(string(b))...)
		}
		wire = append(wire, "0\r\nX-Last: 1\r\n\r\n"...)
		cuts, pause := rand.New(rand.NewPCG(3, uint64(round))), make(chan struct{}, 1)
		w := startWorker(t, func(_ int, p *peer) {
			p.request()
			p.send(streamHead + "5\r\nfirst\r\n")
			<-pause
			for rest := wire; len(rest) > 0; {
				n := min(len(rest), 1+cuts.IntN(2*size))
				p.send(string(rest[:n]))
				rest = rest[n:]
			}
			p.gone()
		})
		obs := &relayed{recorder: *newRecorder()}
		c := relayRouter(t, w.addr(), obs, nil, ingresstest.Patience)
		ingresstest.Within(t, "answer", func() {
			resp := c.ask(t, "POST")
			first := make([]byte, len("first"))
			_, err := io.ReadFull(resp.Body, first)
			require.NoError(t, err)
			pause <- struct{}{}
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, text.String(), string(got))
			require.Equal(t, "1", resp.Trailer.Get("X-Last"))
			wantErr(t, "Closed", <-obs.closed, nil)
		})
		body, begun := obs.seen()
		require.Equal(t, "first"+text.String(), body, "what the observer saw")
		require.True(t, begun, "nothing was relayed")
	}
}

// TestRelayEnds: each kind of end of a stream is noticed, also together with the last bytes.
func TestRelayEnds(t *testing.T) {
	var c upstream.Canceler
	tests := []struct {
		name    string
		timeout time.Duration
		end     func(p *peer)
		want    error
	}{
		{"closed", ingresstest.Patience, func(*peer) {}, upstream.ErrTruncated},
		{"closed with a piece", ingresstest.Patience, func(p *peer) { p.send(chunkOf("last")) }, upstream.ErrTruncated},
		{"reset", ingresstest.Patience, func(p *peer) { p.reset() }, upstream.ErrTruncated},
		{"reset with a piece", ingresstest.Patience, func(p *peer) { p.send(chunkOf("last")); p.reset() }, upstream.ErrTruncated},
		{"no chunk", ingresstest.Patience, func(p *peer) { p.send(chunkOf("last") + "zz\r\n"); p.gone() }, upstream.ErrBadResponse},
		{"silent", 100 * time.Millisecond, func(p *peer) { p.gone() }, upstream.ErrTimeout},
		{"canceled", ingresstest.Patience, func(p *peer) { c.Cancel(); p.gone() }, upstream.ErrCanceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c.Reset()
			went := make(chan struct{})
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(streamHead + chunkOf("first"))
				<-went
				p.send(chunkOf("second"))
				<-went
				tt.end(p)
			})
			obs := &relayed{recorder: *newRecorder()}
			obs.tail = []byte("broken")
			cl := relayRouter(t, w.addr(), obs, &c, tt.timeout)
			ingresstest.Within(t, "answer", func() {
				resp, got := cl.ask(t, "POST"), make([]byte, len("first"))
				_, err := io.ReadFull(resp.Body, got)
				require.NoError(t, err)
				if tt.timeout == ingresstest.Patience { // else it passes now
					went <- struct{}{}
					_, err = io.ReadFull(resp.Body, make([]byte, len(got)+1))
					require.NoError(t, err)
					_, begun := obs.seen()
					require.True(t, begun, "nothing was relayed")
					went <- struct{}{}
				} else {
					defer close(went)
				}
				rest, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.True(t, strings.HasSuffix(string(rest), "broken"), "%q", rest)
				wantErr(t, "Closed", <-obs.closed, tt.want)
			})
		})
	}
}

// TestRelayPassesChunks: a chunk that comes whole goes as it came, and no other does.
func TestRelayPassesChunks(t *testing.T) {
	next := make(chan string)
	w := startWorker(t, func(_ int, p *peer) {
		p.request()
		p.send(streamHead + chunkOf("first"))
		for piece := range next {
			p.send(piece)
		}
		p.gone()
	})
	obs := &relayed{recorder: *newRecorder()}
	c := relayRouter(t, w.addr(), obs, nil, ingresstest.Patience)
	ingresstest.Within(t, "answer", func() {
		defer close(next)
		io.WriteString(c.Conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		br := bufio.NewReader(c.Conn)
		for line := ""; line != "\r\n"; {
			var err error
			line, err = br.ReadString('\n')
			require.NoError(t, err)
		}
		read := func(want string) {
			got := make([]byte, len(want))
			_, err := io.ReadFull(br, got)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}
		read(chunkOf("first"))
		for _, tt := range []struct{ sent, want string }{
			{"000A\r\n0123456789\r\n", "000A\r\n0123456789\r\n"},
			{chunkOf("a piece"), chunkOf("a piece")},
			{"1\r\nx\r\n02\r\nyz\r\n", "3\r\nxyz\r\n"},
			{"02;a=b\r\nyz\r\n", "2\r\nyz\r\n"},
			{"10\r\nbegin", "5\r\nbegin\r\n"},
			{" and an end\r", "b\r\n and an end\r\n"},
			{"\n0B\r\nanother one\r\n", "b\r\nanother one\r\n"},
			{"0C\r\nthe last one\r\n", "0C\r\nthe last one\r\n"},
			{"00\r\n\r\n", "0\r\n\r\n"},
		} {
			next <- tt.sent
			read(tt.want)
		}
		wantErr(t, "Closed", <-obs.closed, nil)
	})
	body, begun := obs.seen()
	require.Equal(t, "first0123456789a piecexyzyzbegin and an endanother onethe last one", body, "what the observer saw")
	require.True(t, begun, "nothing was relayed")
}

// TestRelayDoesNotReuse: a connection with bytes behind the end of an answer serves no other
// request.
func TestRelayDoesNotReuse(t *testing.T) {
	conns, went := make(chan int, 2), make(chan struct{})
	w := startWorker(t, func(nth int, p *peer) {
		for {
			if _, _, ok := p.request(); !ok {
				return
			}
			conns <- nth
			p.send(streamHead + chunkOf("first"))
			<-went
			p.send(chunkOf("last") + "0\r\n\r\n" + strings.Repeat("more", 1<<10))
		}
	})
	obs := &relayed{recorder: *newRecorder()}
	c := relayRouter(t, w.addr(), obs, nil, ingresstest.Patience)
	ingresstest.Within(t, "answers", func() {
		for range 2 {
			resp, first := c.ask(t, "POST"), make([]byte, len("first"))
			_, err := io.ReadFull(resp.Body, first)
			require.NoError(t, err)
			went <- struct{}{}
			rest, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "last", string(rest))
			wantErr(t, "Closed", <-obs.closed, nil)
		}
		require.NotEqual(t, <-conns, <-conns, "one connection for both")
	})
}

// TestRelayGoesOn: a stream outlasts the times at which it is looked at.
func TestRelayGoesOn(t *testing.T) {
	w := startWorker(t, func(_ int, p *peer) {
		p.request()
		p.send(streamHead + chunkOf("first"))
		time.Sleep(upstream.RelayLook + upstream.RelayLook/10)
		p.send(chunkOf("second"))
		p.send(chunkOf("third"))
		p.send("0\r\n\r\n")
		p.gone()
	})
	obs := &relayed{recorder: *newRecorder()}
	c := relayRouter(t, w.addr(), obs, nil, ingresstest.Patience)
	ingresstest.Within(t, "answer", func() {
		body, err := io.ReadAll(c.ask(t, "POST").Body)
		require.NoError(t, err)
		require.Equal(t, "firstsecondthird", string(body))
		wantErr(t, "Closed", <-obs.closed, nil)
	})
}

// waits reports whether a goroutine's stack has all of these calls.
func waits(calls ...string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if !slices.ContainsFunc(calls, func(call string) bool { return !strings.Contains(stack, call) }) {
			return true
		}
	}
	return false
}

// TestRelayIsCanceledAtOnce: Cancel does not wait for a client that does not read.
func TestRelayIsCanceledAtOnce(t *testing.T) {
	w := startWorker(t, func(_ int, p *peer) {
		p.request()
		p.send(streamHead)
		for piece := chunkOf(strings.Repeat("x", 8<<10)); ; {
			if _, err := io.WriteString(p.Conn, piece); err != nil {
				return
			}
		}
	})
	var c upstream.Canceler
	obs := &relayed{recorder: *newRecorder()}
	cl := relayRouter(t, w.addr(), obs, &c, ingresstest.Patience)
	cl.ask(t, "POST")
	ingresstest.Within(t, "cancel", func() {
		for !waits("upstream.relayStream(", "(*pollDesc).waitWrite(") { // the client's socket takes no more
			time.Sleep(time.Millisecond)
		}
		c.Cancel()
		cl.Close()
		if err := <-obs.closed; err == nil {
			t.Error("Closed(nil), want an error")
		}
	})
}
