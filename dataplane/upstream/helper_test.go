package upstream_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

func TestMain(m *testing.M) {
	// fasthttp's own client, in its benchmark only, never ends the last.
	leaktest.Main(m, append(leaktest.FastHTTP(), goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))...)
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
	ln := ingresstest.Listen(t)
	w := &worker{t: t, ln: ln, open: map[net.Conn]bool{}}
	if tlstest.Encrypted(t) {
		targets.Store(ln.Addr().String(), tlstest.Client(t))
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
			if tlstest.Encrypted(w.t) {
				p.Conn = tls.Server(c, tlstest.Server(w.t))
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
		cfg.DialTimeout = ingresstest.Patience // a busy machine takes more than the default, and nothing is slow here but the machine
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
