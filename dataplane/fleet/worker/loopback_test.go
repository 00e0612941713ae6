package worker_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// patience bounds every wait for a real network; a passing test comes nowhere
// near it.
const patience = 2 * time.Minute

// realWorker is an HTTP server on a real port, which can be killed, started
// again and made to hang.
type realWorker struct {
	t       *testing.T
	addr    string
	server  *fasthttp.Server
	serving chan error

	mu   sync.Mutex
	hold chan struct{} // requests wait for it; guarded by mu
}

func (w *realWorker) start() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.addr)
	require.NoError(w.t, err)
	w.server = &fasthttp.Server{Handler: w.handle, CloseOnShutdown: true}
	w.serving = make(chan error, 1)
	go func(s *fasthttp.Server, done chan<- error) { done <- s.Serve(l) }(w.server, w.serving)
}

func (w *realWorker) kill() {
	w.t.Helper()
	require.NoError(w.t, w.server.Shutdown())
	require.NoError(w.t, <-w.serving)
}

// hang makes requests wait until the returned function is called.
func (w *realWorker) hang() (goOn func()) {
	hold := make(chan struct{})
	w.mu.Lock()
	w.hold = hold
	w.mu.Unlock()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.hold = nil
		w.mu.Unlock()
		close(hold)
	})
}

func (w *realWorker) handle(ctx *fasthttp.RequestCtx) {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}
	switch string(ctx.Path()) {
	case "/ready":
	case "/server_info":
		ctx.SetBodyString(`{"version":"0.5.23","dp_size":2}`)
	case "/v1/models":
		ctx.SetBodyString(`{"data":[{"id":"tiny"}]}`)
	default:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// TestRealSockets plays the life of a worker over loopback, with the effects of real sockets:
// refused dials, kept connections that the server closes, time-outs of the kernel's clock.
func TestRealSockets(t *testing.T) {
	w := &realWorker{t: t, addr: natstest.Address(t)}
	w.start()
	c := &calls{}
	r := worker.NewRegistry(worker.Config{
		Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond, HangAfter: 200 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	}, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()

	it, err := r.Add("http://" + w.addr)
	require.NoError(t, err)
	reaches := func(s worker.State) {
		t.Helper()
		require.Eventually(t, func() bool { return it.State() == s }, patience, time.Millisecond, "state %v never came", s)
	}
	reaches(worker.Ready)
	require.Len(t, it.Ranks(), 2)

	canceled := make(chan struct{})
	key := it.Await(func(bool) bool { close(canceled); return true })
	goOn := w.hang()
	reaches(worker.Slow)
	select {
	case <-canceled:
	case <-time.After(patience):
		t.Fatal("a request that waits for a hanging worker was never canceled")
	}
	it.Begun(key)
	require.Equal(t, []string{"up"}, c.all(), "a hang is no death")
	goOn()
	reaches(worker.Ready)

	w.kill()
	reaches(worker.Dead)
	require.Eventually(t, func() bool { return len(c.all()) == 2 }, patience, time.Millisecond, "the observer was not told of the death")
	w.start()
	reaches(worker.Ready)
	require.Equal(t, []string{"up", "down", "up"}, c.all())
	require.NoError(t, r.Remove(it.URL))
	require.Equal(t, []string{"up", "down", "up", "down"}, c.all())
	w.kill()
}
