package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// mode is how a fake worker behaves.
type mode int

const (
	up       mode = iota
	starting      // answers 503
	refusing      // no process at the port
	hanging       // accepts, never answers
	cutting       // closes the connection instead of answering
	starving      // this router is out of file descriptors
)

// fake is a worker in memory, so that time can be the test's own.
type fake struct {
	mu       sync.Mutex
	mode     mode
	changed  chan struct{}     // closed when mode changes; guarded by mu
	answers  map[string]string // body by path, 200; a path that is not there answers 404
	statuses map[string]int    // guarded by mu
	hang     map[string]bool   // paths without an answer in any mode; guarded by mu
	gets     map[string]int    // guarded by mu
	open     int               // connections of the prober; guarded by mu
	most     int               // of them at a time; guarded by mu
	refuses  string            // an address without a listener; guarded by mu
	dialed   []string          // addresses, each once; guarded by mu
	ends     []net.Conn        // of all connections; guarded by mu
	at       net.Addr          // nil: unknown
	header   string            // lines of each answer, with their ends
	closes   bool              // each connection after its answer, unannounced
}

func newFake() *fake {
	return &fake{
		changed: make(chan struct{}), statuses: map[string]int{}, hang: map[string]bool{}, gets: map[string]int{},
		answers: map[string]string{
			"/ready": "", "/server_info": `{"version":"0.5.23","page_size":16}`, "/v1/models": `{"data":[{"id":"tiny"}]}`,
		},
	}
}

func (f *fake) set(m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = m
	close(f.changed)
	f.changed = make(chan struct{})
}

// with changes the fake's answers.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) got(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets[path]
}

func (f *fake) dial(_ context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.dialed, addr) {
		f.dialed = append(f.dialed, addr)
	}
	switch {
	case f.mode == refusing || f.refuses == addr:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case f.mode == starving:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("cannot dial %s: %w", addr, syscall.EMFILE)}
	}
	here, there := net.Pipe()
	f.open++
	f.most = max(f.most, f.open)
	f.ends = append(f.ends, there)
	go f.serve(there)
	return &counted{Conn: here, closed: sync.OnceFunc(func() { f.with(func() { f.open-- }) }), at: f.at}, nil
}

// cut closes all connections, as the kernel does for a process that dies; change is made before
// another one listens.
func (f *fake) cut(change func()) {
	f.with(func() {
		change()
		for _, c := range f.ends {
			_ = c.Close()
		}
		f.ends = nil
	})
}

// counted is the prober's end of a connection.
type counted struct {
	net.Conn
	closed func()
	at     net.Addr
}

// RemoteAddr implements net.Conn.
func (c *counted) RemoteAddr() net.Addr { return c.at }

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (f *fake) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	var req fasthttp.RequestHeader
	for {
		if req.Read(in) != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, in, int64(max(req.ContentLength(), 0))); err != nil {
			return
		}
		answer, ok := f.answer(string(req.RequestURI()))
		if !ok {
			return
		}
		if _, err := conn.Write([]byte(answer)); err != nil || f.closes {
			return
		}
	}
}

// answer waits while the fake hangs.
func (f *fake) answer(path string) (answer string, ok bool) {
	for {
		f.mu.Lock()
		m, changed, hang := f.mode, f.changed, f.hang[path]
		body, known := f.answers[path]
		status := f.statuses[path]
		f.gets[path]++
		f.mu.Unlock()
		switch {
		case m == cutting || m == refusing:
			return "", false
		case m == hanging || hang:
			<-changed
			continue
		case m == starting:
			status = fasthttp.StatusServiceUnavailable
		case status != 0:
		case known:
			status = fasthttp.StatusOK
		default:
			status, body = fasthttp.StatusNotFound, "no such path"
		}
		return fmt.Sprintf("HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", status, f.header, len(body), body), true
	}
}

// calls records the calls of an observer.
type calls struct {
	mu    sync.Mutex
	list  []string
	infos []*worker.Info
	block chan struct{} // Down waits for it, unless it is nil
}

func (c *calls) Up(_ *worker.Worker, info *worker.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, "up")
	c.infos = append(c.infos, info)
}

func (c *calls) Down(*worker.Worker) {
	if c.block != nil {
		<-c.block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, "down")
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.list...)
}

// bench is one fake worker under a registry.
type bench struct {
	t        *testing.T
	fake     *fake
	calls    *calls
	registry *worker.Registry
	worker   *worker.Worker
}

const fakeURL = "http://10.0.0.5:30000"

// watch runs test in a bubble where time is its own, with a registry that has
// one fake worker and the default settings.
func watch(t *testing.T, prepare func(*fake), test func(b *bench)) {
	t.Helper()
	watchAs(t, worker.Spec{URL: fakeURL}, slog.DiscardHandler, prepare, test)
}

// watchAs is watch of a worker that is added as spec, by a registry that logs.
func watchAs(t *testing.T, spec worker.Spec, log slog.Handler, prepare func(*fake), test func(b *bench)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		b := &bench{t: t, fake: newFake(), calls: &calls{}}
		if prepare != nil {
			prepare(b.fake)
		}
		b.registry = worker.NewRegistry(worker.Config{Log: slog.New(log), Dial: b.fake.dial}, b.calls)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.registry.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(t, <-done)
			b.fake.set(refusing)    // frees hanging requests
			time.Sleep(time.Minute) // the client's cleaner of connections ends
		}()
		w, err := b.registry.AddSpec(spec)
		require.NoError(t, err)
		b.worker = w
		test(b)
	})
}

// after lets d pass and everything settle.
func (b *bench) after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func (b *bench) want(state worker.State, calls ...string) {
	b.t.Helper()
	require.Equal(b.t, state.String(), b.worker.State().String(), "state; last error %q", b.worker.LastError())
	require.Equal(b.t, append([]string{}, calls...), b.calls.all(), "what the observer was told")
}
