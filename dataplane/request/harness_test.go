package request_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // -parallel overrides it: tests wait for most of their time
	// The first two sleep for up to 10 s after their owner has ended, and end
	// then; the third is a clock of the whole process.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fakeWorker is an HTTP server with the routes that the router needs, and those that a test
// sets.
type fakeWorker struct {
	t        *testing.T
	http     *http.Server
	url      string
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc // guarded by mu
	bodies   []string                    // of POSTs, guarded by mu
	aborted  chan string                 // rids
}

func newFakeWorker(t *testing.T, info string) *fakeWorker {
	t.Helper()
	// A router keeps probing a worker that is gone. Its port must not be given to a listener of
	// another test, in any process.
	l, err := net.Listen("tcp", natstest.Address(t))
	require.NoError(t, err)
	w := &fakeWorker{t: t, url: "http://" + l.Addr().String(), handlers: map[string]http.HandlerFunc{}, aborted: make(chan string, 16)}
	w.on("/ready", func(http.ResponseWriter, *http.Request) {})
	w.on("/server_info", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, info) })
	w.on("/v1/models", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, `{"object":"list","data":[{"id":"tiny"}]}`)
	})
	w.on("/abort_request", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.aborted <- string(body)
	})
	w.http = &http.Server{Handler: w}
	if tlstest.Encrypted(t) {
		w.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, tlstest.Server(t))
	}
	go func() { _ = w.http.Serve(l) }()
	t.Cleanup(func() { _ = w.http.Close() })
	return w
}

func (w *fakeWorker) on(path string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[path] = h
}

// answers makes path answer with a constant.
func (w *fakeWorker) answers(path, body string) {
	w.on(path, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, body)
	})
}

// streams makes path answer with a stream.
func (w *fakeWorker) streams(path, text string) {
	w.on(path, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(rw, text)
	})
}

// dies makes path close the connection after write.
func (w *fakeWorker) dies(path string, write func(rw http.ResponseWriter)) {
	w.on(path, func(rw http.ResponseWriter, _ *http.Request) {
		write(rw)
		if f, ok := rw.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	})
}

func (w *fakeWorker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	h := w.handlers[r.URL.Path]
	w.mu.Unlock()
	if h == nil {
		http.NotFound(rw, r)
		return
	}
	if r.Method == http.MethodPost && r.URL.Path != "/abort_request" {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.bodies = append(w.bodies, string(body))
		w.mu.Unlock()
	}
	h(rw, r)
}

func (w *fakeWorker) lastBody() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.bodies) == 0 {
		return ""
	}
	return w.bodies[len(w.bodies)-1]
}

// noEvents is a subscriber without publishers.
func noEvents(ctx context.Context, s zmq.Subscription) error {
	s.OnConnect()
	<-ctx.Done()
	return nil
}

func noReplay(context.Context, string, uint64, func(zmq.Message) error) (int, error) { return 0, nil }

// harness is a router over fake workers.
type harness struct {
	t        *testing.T
	base     string
	operator string
	client   *http.Client
	requests *request.Handler
	admin    *admin.API
	server   *request.Server
	registry *worker.Registry
	fleet    *fleet.Manager
	router   *routing.Router
	index    *radix.Index
	stop     func() // drains and waits
	prompts  int    // that ask has sent
}

// settings are those of a harness.
type settings struct {
	request request.Config
	server  request.ServerConfig
	admin   admin.Config
	workers worker.Config
	policy  string
	access  *accesslog.Log
	tracing *tracing.Tracer
	keys    *clientkey.Keys
	view    func() *ingest.View  // nil: that of the events
	parts   func(*request.Parts) // nil: they are as they are
}

type option func(*settings)

func withOperator(key string) option {
	return func(s *settings) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		s.server.Operator, s.admin.Key, s.admin.OnClients = l, key, false
	}
}

func withPolicy(name string) option {
	return func(s *settings) { s.policy = name }
}

func withWorkers(f func(*worker.Config)) option {
	return func(s *settings) { f(&s.workers) }
}

// soonHung finds a hang after three probes of 2 s each: soon enough to wait for, while no
// machine stalls probe after probe for so long.
func soonHung(c *worker.Config) { c.Timeout, c.HangAfter = 2*time.Second, 3*time.Second }

// withTLS has the clients' listener speak TLS.
func withTLS(cfg *tls.Config) option {
	return func(s *settings) { s.server.TLS = cfg }
}

func start(t *testing.T, workers []*fakeWorker, options ...option) *harness {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg := settings{
		request: request.Config{MaxBodyBytes: 1 << 20, Clients: ingress.Limits{Stall: patience}, Log: log},
		server:  request.ServerConfig{Listener: l},
		admin:   admin.Config{Version: "test", OnClients: true},
		// A machine that stalls makes no worker slow: tests of workers that hang set shorter times.
		workers: worker.Config{Interval: 500 * time.Millisecond, Timeout: patience, HangAfter: time.Hour, Log: log},
		policy:  "kv",
	}
	transportTLS := &tls.Config{}
	if tlstest.Encrypted(t) {
		cfg.server.TLS, cfg.server.OperatorTLS, transportTLS = tlstest.Server(t), tlstest.Server(t), tlstest.Client(t)
		cfg.workers.TLS = func(string) *tls.Config { return tlstest.Client(t) }
	}
	for _, o := range options {
		o(&cfg)
	}
	index := radix.New(radix.Config{})
	intake := ingest.NewManager(ingest.Config{Log: log}, index, noEvents, noReplay)
	believed, known := routing.NewApproxIndex(0), routing.NewKnownSessions(index)
	registry := worker.NewRegistry(cfg.workers, worker.Observers{believed, known, intake})
	pick, err := policy.New(cfg.policy, policy.Options{OverlapWeight: 1})
	require.NoError(t, err)
	watcher, err := ingress.NewWatcher()
	require.NoError(t, err)
	transport := upstream.NewTransport(upstream.Config{DialTimeout: patience})
	h := &harness{t: t, base: "http://" + l.Addr().String(), registry: registry, client: &http.Client{Transport: &http.Transport{TLSClientConfig: transportTLS}}}
	if cfg.server.TLS != nil {
		h.base = "https://" + l.Addr().String()
	}
	h.operator = h.base
	if cfg.server.Operator != nil {
		h.operator = strings.Replace(h.base, l.Addr().String(), cfg.server.Operator.Addr().String(), 1)
	}
	h.index = index
	if cfg.view == nil {
		cfg.view = intake.View
	}
	h.router = routing.New(registry, index, cfg.view, pick, rand.Uint64)
	h.router.Approx, h.router.Known = believed, known
	parts := request.Parts{
		Registry: registry, Index: index, Router: h.router, Transport: transport, AccessLog: cfg.access, Tracing: cfg.tracing, Keys: cfg.keys,
	}
	if cfg.parts != nil {
		cfg.parts(&parts)
	}
	h.requests = request.New(cfg.request, parts)
	h.fleet = fleet.NewManager(registry, nil, fleet.Config{Log: log})
	h.admin = admin.New(cfg.admin, admin.Parts{
		Requests: h.requests, Registry: registry, Ingest: intake, Index: index, Router: h.router, Transport: transport, Fleet: h.fleet,
	})
	h.server = request.NewServer(cfg.server, watcher, h.requests, h.admin)
	h.run(watcher, transport)
	for _, w := range workers {
		require.NoError(t, h.fleet.Add(worker.Spec{URL: w.url}))
	}
	h.awaitReady(len(workers))
	return h
}

func (h *harness) run(watcher *ingress.Watcher, transport *upstream.Transport) {
	serving, stopServing := context.WithCancel(context.Background())
	parts, stopParts := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	served := make(chan struct{})
	wg.Go(func() { defer close(served); _ = h.server.Run(serving) })
	h.fleet.Start(parts)
	wg.Go(func() { _ = h.registry.Run(parts) })
	wg.Go(func() { _ = h.fleet.Run(parts) })
	wg.Go(func() { _ = watcher.Run(parts) })
	h.stop = sync.OnceFunc(func() {
		h.client.CloseIdleConnections() // the drain looks every 100 ms whether all are closed
		stopServing()
		<-served
		stopParts()
		wg.Wait()
		_ = transport.Close()
		_ = watcher.Close()
		h.client.CloseIdleConnections()
	})
	h.t.Cleanup(h.stop)
	h.t.Cleanup(h.checkNothingLeaked)
}

// checkNothingLeaked is the invariant after every test: no rank has the load of an ended
// request.
func (h *harness) checkNothingLeaked() {
	require.Eventually(h.t, func() bool {
		for _, r := range h.registry.Snapshot().Ranks {
			if r.Load.InFlight() != 0 || r.Load.Pending() != 0 || r.Load.Waiting() != 0 || r.Load.Reserved() != 0 {
				return false
			}
		}
		return h.admin.Status().InFlight == 0
	}, patience, tick, "load of ended requests is still counted")
}

func (h *harness) awaitReady(n int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		ready := 0
		for _, w := range h.registry.Snapshot().Workers {
			if w.State() == worker.Ready {
				ready++
			}
		}
		return ready == n
	}, patience, tick, "workers did not become ready")
}

// awaitEnded waits until n requests have ended and are counted. A client has its answer before.
func (h *harness) awaitEnded(n uint64) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		st := h.admin.Status()
		return st.Requests == n && st.InFlight == 0
	}, patience, tick, "%d requests have not ended", n)
}

// awaitIdle waits until no request is in flight. A client has its answer before, while the
// request still counts as its rank's load.
func (h *harness) awaitIdle() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return h.admin.Status().InFlight == 0 }, patience, tick, "requests have not ended")
}

// do sends one request and reads the whole answer.
func (h *harness) do(method, url, body string, header ...string) (*http.Response, string, error) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, url, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

func (h *harness) post(path, body string) (*http.Response, string) {
	h.t.Helper()
	resp, got, err := h.do(http.MethodPost, h.base+path, body)
	require.NoError(h.t, err)
	return resp, got
}

// failsOver checks that a stream comes from the good one of two workers, whichever is asked first.
func failsOver(t *testing.T, path, body, answer string, fail func(bad *fakeWorker)) {
	t.Helper()
	bad, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	fail(bad)
	good.streams(path, answer)
	h := start(t, []*fakeWorker{bad, good})
	asked := false
	for i := 0; i < 40 && !asked; i++ {
		resp, got := h.post(path, body+`,"stream":true}`)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, answer, got)
		asked = bad.lastBody() != ""
	}
	assert.True(t, asked, "the failing worker was never asked")
}

func info(dpSize int) string {
	return fmt.Sprintf(`{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":%d}`, dpSize)
}
