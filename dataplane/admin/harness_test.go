package admin_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

func TestMain(m *testing.M) {
	leaktest.Main(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// patience bounds the wait for an event, and tick is the pause between two looks: CI may be slow.
const (
	patience = 3 * time.Minute
	tick     = 5 * time.Millisecond
)

// An inference request and its answer.
const (
	idsBody  = `{"input_ids":[1,2,3,4,5,6,7,8,9],"sampling_params":{"max_new_tokens":4}}`
	idsReply = `{"text":"x","meta_info":{"prompt_tokens":9,"completion_tokens":4,"cached_tokens":8}}`
)

// fakeWorker is an HTTP server with the routes that the router needs, and those that a test
// sets.
type fakeWorker struct {
	url      string
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc // guarded by mu
	last     string                      // body of the last POST; guarded by mu
}

func newFakeWorker(t *testing.T, info string) *fakeWorker {
	t.Helper()
	return newWorkerOn(t, "127.0.0.1:0", info)
}

func newWorkerOn(t *testing.T, address, info string) *fakeWorker {
	t.Helper()
	w := &fakeWorker{handlers: map[string]http.HandlerFunc{}}
	w.answers("/ready", "")
	w.answers("/abort_request", "")
	w.answers("/server_info", info)
	w.answers("/v1/models", `{"object":"list","data":[{"id":"tiny"}]}`)
	server := &httptest.Server{Listener: listen(t, address), Config: &http.Server{Handler: w}}
	server.Start()
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// info describes a worker with so many ranks.
func info(dpSize int) string {
	return fmt.Sprintf(`{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":%d}`, dpSize)
}

// newPair makes so many prefill and decode workers.
func newPair(t *testing.T, prefills, decodes int) (p, d []*fakeWorker) {
	t.Helper()
	bootstrap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(bootstrap.Close)
	half := func(mode string) *fakeWorker {
		w := newFakeWorker(t, fmt.Sprintf(`{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1,
			"disaggregation_mode":%q,"disaggregation_bootstrap_port":%s}`, mode, portOf(bootstrap.URL)))
		w.answers("/generate", idsReply)
		return w
	}
	for range prefills {
		p = append(p, half("prefill"))
	}
	for range decodes {
		d = append(d, half("decode"))
	}
	return p, d
}

func portOf(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

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

func (w *fakeWorker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	h := w.handlers[r.URL.Path]
	if r.Method == http.MethodPost && r.URL.Path != "/abort_request" {
		w.last = string(body)
	}
	w.mu.Unlock()
	if h == nil {
		http.NotFound(rw, r)
		return
	}
	h(rw, r)
}

func (w *fakeWorker) lastBody() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// harness is a router of fake workers, none of which publishes events.
type harness struct {
	t              *testing.T
	base, operator string // URLs of the two listeners
	client         *http.Client
	admin          *admin.API
	registry       *worker.Registry
	fleet          *fleet.Manager
	router         *routing.Router
	stop           func() // drains and waits
}

// settings are those of a harness.
type settings struct {
	policy, key string
	cluster     admin.Cluster
	tiers       func() directory.Status
	interval    time.Duration // between probes
}

// start runs a router. With a key, operators have a listener of their own.
func start(t *testing.T, workers []*fakeWorker, set settings) *harness {
	t.Helper()
	if set.policy == "" {
		set.policy = "kv"
	}
	pick, err := policy.New(set.policy, policy.Options{OverlapWeight: 1})
	require.NoError(t, err)
	log, index := slog.New(slog.DiscardHandler), radix.New(radix.Config{})
	subscribe := func(ctx context.Context, s zmq.Subscription) error { s.OnConnect(); <-ctx.Done(); return nil }
	replay := func(context.Context, string, uint64, func(zmq.Message) error) (int, error) { return 0, nil }
	intake := ingest.NewManager(ingest.Config{Log: log}, index, subscribe, replay)
	approx, known := routing.NewApproxIndex(0), routing.NewKnownSessions(index)
	registry := worker.NewRegistry(worker.Config{
		Interval: cmp.Or(set.interval, 20*time.Millisecond), Timeout: patience, HangAfter: time.Hour, Log: log,
	}, worker.Observers{approx, known, intake})
	router := routing.New(registry, index, intake.View, pick, rand.Uint64)
	router.Approx, router.Known = approx, known
	transport := upstream.NewTransport(upstream.Config{DialTimeout: patience})
	requests := request.New(request.Config{MaxBodyBytes: 1 << 20, Log: log}, request.Parts{
		Registry: registry, Index: index, Router: router, Transport: transport,
	})
	manager := fleet.NewManager(registry, nil, fleet.Config{Log: log})
	api := admin.New(admin.Config{Version: "test", Key: set.key, OnClients: set.key == ""}, admin.Parts{
		Requests: requests, Registry: registry, Ingest: intake, Index: index, Router: router, Transport: transport,
		Fleet: manager, Cluster: set.cluster, Tiers: set.tiers,
	})
	cfg := request.ServerConfig{Listener: listen(t, "127.0.0.1:0")}
	h := &harness{t: t, base: "http://" + cfg.Listener.Addr().String(), client: &http.Client{Transport: &http.Transport{}}, admin: api, registry: registry, fleet: manager, router: router}
	h.operator = h.base
	if set.key != "" {
		cfg.Operator = listen(t, "127.0.0.1:0")
		h.operator = "http://" + cfg.Operator.Addr().String()
	}
	h.run(cfg, requests, transport)
	for _, w := range workers {
		require.NoError(t, h.fleet.Add(worker.Spec{URL: w.url}))
	}
	h.awaitReady(len(workers))
	return h
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	return l
}

func (h *harness) run(cfg request.ServerConfig, requests *request.Handler, transport *upstream.Transport) {
	h.t.Helper()
	watcher, err := ingress.NewWatcher()
	require.NoError(h.t, err)
	server := request.NewServer(cfg, watcher, requests, h.admin)
	serving, stopServing := context.WithCancel(context.Background())
	parts, stopParts := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	served := make(chan struct{})
	wg.Go(func() { defer close(served); _ = server.Run(serving) })
	h.fleet.Start(parts)
	wg.Go(func() { _ = h.registry.Run(parts) })
	wg.Go(func() { _ = h.fleet.Run(parts) })
	wg.Go(func() { _ = watcher.Run(parts) })
	h.stop = sync.OnceFunc(func() {
		h.client.CloseIdleConnections()
		stopServing()
		<-served
		stopParts()
		wg.Wait()
		_ = transport.Close()
		_ = watcher.Close()
	})
	h.t.Cleanup(h.stop)
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

// awaitIdle waits until no request is in flight. A client has its answer before, while the
// request still counts as its rank's load.
func (h *harness) awaitIdle() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return h.admin.Status().InFlight == 0 }, patience, tick, "requests have not ended")
}

func (h *harness) do(method, url, body string, header ...string) (*http.Response, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, url, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := h.client.Do(req)
	require.NoError(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return resp, string(got)
}

func (h *harness) post(path, body string) (*http.Response, string) {
	h.t.Helper()
	return h.do(http.MethodPost, h.base+path, body)
}

// scrape returns /metrics.
func (h *harness) scrape() string {
	h.t.Helper()
	_, metrics := h.do(http.MethodGet, h.operator+"/metrics", "")
	return metrics
}

// worker returns the registry's entry for a fake.
func (h *harness) worker(f *fakeWorker) *worker.Worker {
	h.t.Helper()
	w, err := h.registry.Get(f.url)
	require.NoError(h.t, err)
	return w
}
