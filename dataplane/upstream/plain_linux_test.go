package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// plainRouter forwards plain requests to a worker, and answers the others itself, by what they ask.
type plainRouter struct {
	*fasthttp.Server
	addr   string
	plain  atomic.Int64 // requests
	passed atomic.Int64 // of those, answered by Pass
	drains atomic.Bool
	whole  bool // events are sent in whole ones
	ended  chan error
}

func startPlain(t testing.TB, worker string) *plainRouter {
	t.Helper()
	return startPlainOn(t, startWatcher(t), worker)
}

func startPlainOn(t testing.TB, watcher *upstream.Watcher, worker string) *plainRouter {
	t.Helper()
	tr, r := newTransport(t, upstream.Config{}), &plainRouter{ended: make(chan error, 1)}
	r.Server = &fasthttp.Server{
		ReduceMemoryUsage: true, CloseOnShutdown: true, ReadBufferSize: 16 << 10, IdleTimeout: time.Minute, ConnState: upstream.NoteState, MaxRequestBodySize: 80 << 20,
		Handler: func(ctx *fasthttp.RequestCtx) {
			fmt.Fprintf(ctx, "odd %s %s %d", ctx.Method(), ctx.Path(), len(ctx.PostBody()))
		},
	}
	p := &upstream.Plain{
		Takes:   func(target []byte, _ int) bool { return string(target) == "/generate" },
		Closing: r.drains.Load, Idle: time.Minute, MaxHead: 16 << 10,
		Refuse: refuse, MaxBody: func() int { return 80 << 20 },
		Serve: func(in *upstream.Inbound) {
			r.plain.Add(1)
			req := upstream.Request{Target: target(worker), Method: in.Method(), Path: in.Target(), Lines: in.AppendLines(nil, nil), Plain: true}
			if len(in.Body()) > 0 {
				req.Body = [][]byte{in.Body()}
			}
			resp, err := tr.Do(nil, &req)
			if err == nil {
				err = resp.Await()
			}
			switch {
			case err != nil:
				in.Ctx().Error(err.Error(), fasthttp.StatusBadGateway)
			case in.Pass(resp, sink{}, []byte("X-Router: 1\r\n"), time.Now()):
				r.passed.Add(1)
			default:
				if r.whole {
					resp.WholeEvents()
				}
				upstream.Forward(in.Ctx(), resp, sink{})
			}
		},
	}
	ln, err := net.Listen("tcp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	watched := facing(t, watcher.ListenPlain(ln, p))
	go func() { r.ended <- r.Serve(watched) }()
	t.Cleanup(func() { watched.Close() })
	return r
}

// dial opens a client's connection.
func (r *plainRouter) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if encrypted(t) {
		return tls.Client(conn, clientTLS(t))
	}
	return conn
}

// repeat answers with the length of the body that came.
func repeat(_ int, p *peer) {
	for {
		head, body, ok := p.request()
		if !ok {
			return
		}
		if strings.Contains(head, "X-Kind: chunked") {
			p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
			continue
		}
		text := fmt.Sprintf("%d of %s", len(body), body[:min(len(body), 8)])
		if strings.Contains(head, "X-Kind: long") {
			text = strings.Repeat("x", 200<<10)
		}
		p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Worker: 1\r\nX-Warmpath-Worker: none\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	}
}

// answered reads an answer.
func answered(t *testing.T, br *bufio.Reader) (body string, resp *http.Response) {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), resp
}

const plainHead = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: "

// TestPlainAmongOthers: requests of all kinds come one behind the other, at once, and each is answered by whom it is for.
func TestPlainAmongOthers(t *testing.T) { overBoth(t, testPlainAmongOthers) }

func testPlainAmongOthers(t *testing.T) {
	t.Helper()
	w := startWorker(t, repeat)
	r := startPlain(t, w.addr())
	asks := []struct {
		ask, want string
		plain     bool
	}{
		{plainHead + "2\r\n\r\n{}", "2 of {}", true},
		{plainHead + "0\r\n\r\n", "0 of ", true},
		{plainHead + "3\r\n\r\nabc", "3 of abc", true},
		{"POST /generate HTTP/1.1\r\nHost: x\r\nX-Kind: chunked\r\nContent-Length: 1\r\n\r\n1", "abc", true},
		{"POST /generate HTTP/1.1\r\nHost: x\r\nX-Kind: long\r\nContent-Length: 1\r\n\r\n1", strings.Repeat("x", 200<<10), true},
		{plainHead + "4\r\n\r\nmore", "4 of more", true},
		{"GET /generate HTTP/1.1\r\nHost: x\r\n\r\n", "odd GET /generate 0", false},
		{"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1", "odd POST /other 1", false},
		{"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "2 of ab", true},
		{"POST /generate HTTP/1.1\r\nHost: x\r\nX: \xff\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\n\r\n", "odd POST /generate 2", false},
		{"PUT /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd", "odd PUT /generate 4", false},
		{"GET /other HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /", "odd GET /other 5", false},
	}
	var sb strings.Builder
	plain := int64(0)
	for _, a := range asks {
		sb.WriteString(a.ask)
		if a.plain {
			plain++
		}
	}
	all := sb.String()
	for name, pieces := range map[string][]string{"at once": {all}, "byte by byte": strings.Split(all, ""), "halves": {all[:300], all[300:]}} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial(t)
			br := bufio.NewReader(conn)
			for range 3 {
				before := r.plain.Load()
				go func() {
					for _, p := range pieces {
						if _, err := io.WriteString(conn, p); err != nil {
							t.Error(err)
						}
					}
				}()
				for _, a := range asks {
					got, resp := answered(t, br)
					if at, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Since(at).Abs() > patience {
						t.Fatalf("%q: Date %q, %v", a.ask, resp.Header.Get("Date"), err)
					}
					if got != a.want || resp.ContentLength >= 0 && len(got) < 1<<10 && a.plain != (resp.Header.Get("X-Router") == "1") ||
						a.plain && resp.ContentLength < 100 && resp.Header.Get("X-Warmpath-Worker") != "" {
						t.Fatalf("%q: %.60q %v, want %.60q", a.ask, got, resp.Header, a.want)
					}
				}
				if n := r.plain.Load() - before; n != plain {
					t.Errorf("%d were taken for plain ones, want %d", n, plain)
				}
			}
		})
	}
	if r.passed.Load() < 4 {
		t.Errorf("%d answers left in one piece", r.passed.Load())
	}
}

// TestPlainLarge: bodies larger than a read buffer are plain, too; a client that leaves in the middle ends its connection.
func TestPlainLarge(t *testing.T) { overBoth(t, testPlainLarge) }

func testPlainLarge(t *testing.T) {
	t.Helper()
	w := startWorker(t, repeat)
	r := startPlain(t, w.addr())
	for _, size := range []int{15 << 10, 16<<10 - 1, 16 << 10, 17 << 10, 33 << 10, 1 << 20, 4<<20 + 1, 16<<20 - 200, 16 << 20, 70 << 20} {
		before := r.plain.Load()
		conn := r.dial(t)
		body, br := strings.Repeat("ab", size/2+1)[:size], bufio.NewReader(conn)
		want := fmt.Sprintf("%d of abababab", size)
		for range 2 {
			go io.WriteString(conn, fmt.Sprintf("%s%d\r\n\r\n%s", plainHead, size, body))
			if got, _ := answered(t, br); got != want {
				t.Fatalf("%.60q, want %q", got, want)
			}
		}
		if n := r.plain.Load() - before; n != 2 {
			t.Errorf("%d bytes: %d were taken for plain ones", size, n)
		}
		io.WriteString(conn, fmt.Sprintf("%s%d\r\n\r\n%s", plainHead, size, body[1:]))
		conn.(interface{ CloseWrite() error }).CloseWrite()
		within(t, "end of the connection", func() { _, _ = io.Copy(io.Discard, br) })
		conn.Close()
	}
}

// TestPlainDrain: a drain ends connections that wait, at once, and lets the request that is being answered end.
func TestPlainDrain(t *testing.T) { overBoth(t, testPlainDrain) }

func testPlainDrain(t *testing.T) {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	w := startWorker(t, func(_ int, p *peer) {
		if _, _, ok := p.request(); ok {
			close(begun)
			<-release
			p.send(plainAnswer)
		}
	})
	r := startPlain(t, w.addr())
	dial := func(ask string) (net.Conn, *bufio.Reader) {
		conn := r.dial(t)
		if ask != "" {
			io.WriteString(conn, ask)
		}
		return conn, bufio.NewReader(conn)
	}
	silent, silentReader := dial("")
	defer silent.Close()
	part, partReader := dial("POST /gen")
	defer part.Close()
	odd, oddReader := dial("GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	defer odd.Close()
	answered(t, oddReader)
	busy, busyReader := dial(plainHead + "2\r\n\r\n{}")
	defer busy.Close()
	<-begun
	r.drains.Store(true)
	drained := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		drained <- r.ShutdownWithContext(ctx)
	}()
	for name, br := range map[string]*bufio.Reader{"silent": silentReader, "waiting": oddReader} {
		within(t, name, func() {
			if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v, want its end", name, err)
			}
		})
	}
	select {
	case err := <-drained:
		t.Fatalf("the drain did not wait: %v", err)
	default:
	}
	close(release)
	got, resp := answered(t, busyReader)
	if got != "ok" || !resp.Close {
		t.Errorf("got %q, close %v", got, resp.Close)
	}
	if _, err := busyReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %v, want the connection's end", err)
	}
	part.Close()
	_ = partReader
	within(t, "drain", func() { wantErr(t, "drain", <-drained, nil) })
	within(t, "server", func() { wantErr(t, "Serve", <-r.ended, nil) })
}

// TestPlainIdleTimeout: a connection that asks no more is closed by the limit of plain ones.
func TestPlainIdleTimeout(t *testing.T) {
	w := startWorker(t, repeat)
	served := make(chan struct{}, 1)
	ln, err := net.Listen("tcp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	tr := newTransport(t, upstream.Config{})
	watched := startWatcher(t).ListenPlain(ln, &upstream.Plain{
		Takes: func([]byte, int) bool { return true }, Closing: func() bool { return false }, Idle: 50 * time.Millisecond, MaxHead: 1 << 10,
		Refuse: refuse, MaxBody: func() int { return 1 << 20 },
		Serve: func(in *upstream.Inbound) {
			resp, err := tr.Do(nil, &upstream.Request{Target: target(w.addr()), Method: in.Method(), Path: in.Target(), Plain: true})
			if err != nil || resp.Await() != nil || !in.Pass(resp, sink{}, nil, time.Now()) {
				in.Ctx().Error("cannot pass", fasthttp.StatusInternalServerError)
			}
			served <- struct{}{}
		},
	})
	srv := &fasthttp.Server{ReduceMemoryUsage: true, ConnState: upstream.NoteState, IdleTimeout: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(watched) }()
	defer func() { watched.Close(); <-ended }()
	asks := func() (asked int) { // until the connection ends: on a slow machine before it has asked for the last time
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		br := bufio.NewReader(conn)
		for ; asked < 3; asked++ {
			io.WriteString(conn, plainHead+"0\r\n\r\n")
			if _, err := br.Peek(1); err != nil {
				return asked
			}
			if got, _ := answered(t, br); got != "0 of " {
				t.Fatalf("got %q", got)
			}
			<-served
		}
		if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after the idle time: %v, want the connection's end", err)
		}
		return asked
	}
	within(t, "idle timeout", func() {
		for asks() < 3 {
		}
	})
}
