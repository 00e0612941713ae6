package ingresstest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// Patience bounds waits that only a bug makes long.
const Patience = 5 * time.Minute

// Listen returns a listener on a port that no other process's test has had: its router may still
// look for a worker there.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", natstest.Address(t))
	require.NoError(t, err)
	return ln
}

// StartWatcher runs a Watcher until the test ends.
func StartWatcher(t testing.TB) *ingress.Watcher {
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

// StartServer serves h on ln until the test ends, with TLS where the test has it.
func StartServer(t testing.TB, ln net.Listener, h fasthttp.RequestHandler, change ...func(*ingress.Config)) *ingress.Server {
	t.Helper()
	cfg := ingress.Config{
		Handler: h, Refuse: refuse, MaxBody: func() int { return 1 << 20 }, MaxHead: 16 << 10,
		Limits:  func() ingress.Limits { return ingress.Limits{Stall: Patience} },
		Watcher: StartWatcher(t), Log: slog.New(slog.DiscardHandler),
	}
	if tlstest.Encrypted(t) {
		cfg.TLS = tlstest.Server(t)
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

// Within fails the test when fn does not return: a hang shall name itself.
func Within(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	Await(t, what, done)
}

// Await waits for ch to be closed and tells how long that took.
func Await(t testing.TB, what string, ch <-chan struct{}) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-ch:
	case <-time.After(Patience):
		t.Fatalf("%s: not within %v", what, Patience)
	}
	return time.Since(begin)
}
