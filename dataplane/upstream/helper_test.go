package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

func TestMain(m *testing.M) {
	leaktest.Main(
		m,
		// fasthttp refreshes its Date header from one goroutine for the life of the process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// fasthttp's own client, in its benchmark only, never ends these.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"),
		// A server's pool looks after its idle goroutines for up to 10 s after it ended.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		// fasthttp's own client, in its benchmark only, never ends these.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"),
	)
}

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

// loopback is an address for a listener whose port no other process's test has had: its router
// may still look for a worker there.
func loopback(t testing.TB) string {
	t.Helper()
	return natstest.Address(t)
}

// worker is an upstream server that follows a test's script, connection by connection.
type worker struct {
	t    testing.TB
	ln   net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
}

// startWorker runs serve for each connection; nth counts them from 0. The connection is closed
// when serve returns.
func startWorker(t testing.TB, serve func(nth int, c *peer)) *worker {
	t.Helper()
	ln, err := net.Listen("tcp", loopback(t))
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	w := &worker{t: t, ln: ln, open: map[net.Conn]bool{}}
	if encrypted(t) {
		targets.Store(ln.Addr().String(), clientTLS(t))
	}
	w.wg.Add(1)
	go w.accept(serve)
	t.Cleanup(w.stop)
	return w
}

func (w *worker) accept(serve func(int, *peer)) {
	defer w.wg.Done()
	for n := 0; ; n++ {
		c, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.open[c] = true
		w.mu.Unlock()
		w.wg.Go(func() {
			defer c.Close()
			p := &peer{Conn: c, tcp: c.(*net.TCPConn)}
			if encrypted(w.t) {
				p.Conn = tls.Server(c, serverTLS(w.t))
			}
			p.br = bufio.NewReader(p.Conn)
			serve(n, p)
		})
	}
}

func (w *worker) stop() {
	targets.Delete(w.addr()) // the port may be another worker's next
	w.ln.Close()
	w.mu.Lock()
	for c := range w.open {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *worker) addr() string { return w.ln.Addr().String() }

// peer is the worker's end of one connection.
type peer struct {
	net.Conn // with TLS where the test has it
	tcp      *net.TCPConn
	br       *bufio.Reader
}

// request reads one whole request and returns its head and body; ok is false at the end of the
// connection.
func (p *peer) request() (head, body string, ok bool) {
	head, ok = p.head()
	if !ok {
		return "", "", false
	}
	n := 0
	for line := range strings.SplitSeq(head, "\r\n") {
		if v, found := strings.CutPrefix(line, "Content-Length: "); found {
			fmt.Sscan(v, &n)
		}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(p.br, b); err != nil {
		return head, "", false
	}
	return head, string(b), true
}

// head reads a request's head only.
func (p *peer) head() (string, bool) {
	var sb strings.Builder
	for {
		line, err := p.br.ReadString('\n')
		if err != nil {
			return sb.String(), false
		}
		if line == "\r\n" {
			return sb.String(), true
		}
		sb.WriteString(line)
	}
}

func (p *peer) send(s string) { _, _ = io.WriteString(p.Conn, s) }

// reset makes the close that follows an RST.
func (p *peer) reset() { _ = p.tcp.SetLinger(0) }

// gone waits until the other side has closed.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.br) }

// each answers every request of a connection alike.
func each(answer string) func(int, *peer) {
	return func(_ int, p *peer) {
		for {
			if _, _, ok := p.request(); !ok {
				return
			}
			p.send(answer)
		}
	}
}

func newTransport(t testing.TB, cfg upstream.Config) *upstream.Transport {
	t.Helper()
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = patience // a busy machine takes more than the default, and nothing is slow here but the machine
	}
	tr := upstream.NewTransport(cfg)
	t.Cleanup(func() { tr.Close() })
	return tr
}

func post(addr string, body ...string) *upstream.Request {
	r := &upstream.Request{Target: target(addr), Method: []byte("POST"), Path: []byte("/generate")}
	for _, b := range body {
		r.Body = append(r.Body, []byte(b))
	}
	return r
}

// get runs a request to its end.
func get(tr *upstream.Transport, req *upstream.Request) (status int, body string, err error) {
	resp, err := tr.Do(nil, req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Close()
	b, err := io.ReadAll(resp)
	return resp.Status, string(b), err
}

// within fails the test when fn does not return: a hang shall name itself.
func within(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: still waiting after %v", what, patience)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if want == nil && got != nil || want != nil && !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// clientHeader parses a client's request head.
func clientHeader(t testing.TB, raw string) *fasthttp.RequestHeader {
	t.Helper()
	h := &fasthttp.RequestHeader{}
	if err := h.Read(bufio.NewReader(strings.NewReader(raw))); err != nil {
		t.Fatalf("header: %v", err)
	}
	return h
}

// await waits for ch to be closed and tells how long that took.
func await(t testing.TB, what string, ch <-chan struct{}) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	return time.Since(begin)
}

// refuse answers requests that cannot be read.
func refuse(ctx *fasthttp.RequestCtx, err error) {
	status := fasthttp.StatusBadRequest
	switch {
	case errors.Is(err, ingress.ErrBodyTooLarge):
		status = fasthttp.StatusRequestEntityTooLarge
	case errors.Is(err, ingress.ErrHeadTooLarge):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, ingress.ErrSlowRequest):
		status = fasthttp.StatusRequestTimeout
	}
	ctx.Error(err.Error(), status)
}

// startServer serves h on ln until the test ends, with TLS where the test has it.
func startServer(t testing.TB, ln net.Listener, h fasthttp.RequestHandler, change ...func(*ingress.Config)) *ingress.Server {
	t.Helper()
	cfg := ingress.Config{
		Handler: h, Refuse: refuse, MaxBody: func() int { return 64 << 20 }, MaxHead: 16 << 10,
		Limits:  func() ingress.Limits { return ingress.Limits{Stall: patience} },
		Watcher: startWatcher(t), Log: slog.New(slog.DiscardHandler),
	}
	if encrypted(t) {
		cfg.TLS = serverTLS(t)
		cfg.TLS.DynamicRecordSizingDisabled = true
	}
	for _, c := range change {
		c(&cfg)
	}
	s := ingress.NewServer(cfg)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // clients of tests that have failed
		_ = s.Shutdown(ctx)
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// listen returns a listener on an address of its own.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// startWatcher runs a Watcher until the test ends.
func startWatcher(t testing.TB) *ingress.Watcher {
	t.Helper()
	w, err := ingress.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}
