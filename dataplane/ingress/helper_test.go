package ingress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // for the life of the process
}

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

// loopback is an address for a listener whose port no other process's test has had.
func loopback(t testing.TB) string {
	t.Helper()
	return natstest.Address(t)
}

// listen returns a listener on an address of its own.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", loopback(t))
	require.NoError(t, err)
	return ln
}

// encrypted tells which of a test's two runs this is: "plain" or "tls".
func encrypted(t testing.TB) bool {
	t.Helper()
	return strings.Contains(t.Name()+"/", "/tls/")
}

// overBoth runs a test over plain connections and over TLS.
func overBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("plain", test)
	t.Run("tls", test)
}

// identity is the certificate of all servers, and the authority that clients trust.
var identity struct {
	once sync.Once
	pair tls.Certificate
	pool *x509.CertPool
}

func identify(t testing.TB) {
	t.Helper()
	identity.once.Do(func() {
		ca := tlstest.NewAuthority(t)
		identity.pair, identity.pool = ca.Issue("127.0.0.1").TLS, ca.Pool()
	})
}

func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{Certificates: []tls.Certificate{identity.pair}}
}

func clientTLS(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{RootCAs: identity.pool, ServerName: "127.0.0.1"}
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
	case errors.Is(err, ingress.ErrVersion):
		status = fasthttp.StatusHTTPVersionNotSupported
	case errors.Is(err, ingress.ErrFull):
		status = fasthttp.StatusServiceUnavailable
	case errors.Is(err, ingress.ErrExpectation):
		status = fasthttp.StatusExpectationFailed
	}
	ctx.Error(err.Error(), status)
}

// startWatcher runs a Watcher until the test ends.
func startWatcher(t testing.TB) *ingress.Watcher {
	t.Helper()
	w, err := ingress.NewWatcher()
	require.NoError(t, err)
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

// startServer serves h on ln until the test ends, with TLS where the test has it.
func startServer(t testing.TB, ln net.Listener, h fasthttp.RequestHandler, change ...func(*ingress.Config)) *ingress.Server {
	t.Helper()
	cfg := ingress.Config{
		Handler: h, Refuse: refuse, MaxBody: func() int { return 1 << 20 }, MaxHead: 16 << 10,
		Limits:  func() ingress.Limits { return ingress.Limits{Stall: patience} },
		Watcher: startWatcher(t), Log: slog.New(slog.DiscardHandler),
	}
	if encrypted(t) {
		cfg.TLS = serverTLS(t)
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

// withLimits sets the limits of a server's clients.
func withLimits(l ingress.Limits) func(*ingress.Config) {
	return func(c *ingress.Config) { c.Limits = func() ingress.Limits { return l } }
}

// echo answers with the target and the body.
func echo(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "%s %s %s", ctx.Method(), ctx.RequestURI(), ctx.Request.Body())
}

// dial opens a client's connection.
func dial(t testing.TB, ln net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	if encrypted(t) {
		conn = tls.Client(conn, clientTLS(t))
	}
	return conn, bufio.NewReader(conn)
}

// say sends bytes as they are.
func say(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// answer reads one answer.
func answer(t testing.TB, br *bufio.Reader) (status int, body string) {
	t.Helper()
	r, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
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
