package requesttest

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

// Settings are those of a Router. An Option changes them before the router is made.
type Settings struct {
	Request      request.Config
	Server       request.ServerConfig // without listeners, which Start makes
	Admin        admin.Config
	Workers      worker.Config
	Policy       string                 // kv
	View         func() *ingest.View    // nil: that of the events
	RequestParts []func(*request.Parts) // change the parts, one after the other
	AdminParts   []func(*admin.Parts)   // as RequestParts
	operator     bool                   // operators have a listener of their own
}

// Option changes settings.
type Option func(*Settings)

// WithOperator gives operators a listener of their own, and a key if it is not empty.
func WithOperator(key string) Option {
	return func(s *Settings) { s.operator, s.Admin.Key, s.Admin.OnClients = true, key, false }
}

// WithPolicy sets the policy by its name.
func WithPolicy(name string) Option { return func(s *Settings) { s.Policy = name } }

// WithConfig changes the configuration of requests.
func WithConfig(f func(*request.Config)) Option { return func(s *Settings) { f(&s.Request) } }

// WithWorkers changes the configuration of the registry of workers.
func WithWorkers(f func(*worker.Config)) Option { return func(s *Settings) { f(&s.Workers) } }

// WithParts changes the parts that answer requests.
func WithParts(f func(*request.Parts)) Option {
	return func(s *Settings) { s.RequestParts = append(s.RequestParts, f) }
}

// WithAdminParts changes the parts that operators see.
func WithAdminParts(f func(*admin.Parts)) Option {
	return func(s *Settings) { s.AdminParts = append(s.AdminParts, f) }
}

// Router is a router over fake workers, none of which publishes events.
type Router struct {
	Base     string // URL of the clients' listener
	Operator string // URL of the operators' listener, which may be the clients'
	Client   *http.Client
	Requests *request.Handler
	Admin    *admin.API
	Server   *request.Server
	Registry *worker.Registry
	Fleet    *fleet.Manager
	Routing  *routing.Router
	Index    *radix.Index
	Stop     func() // drains and waits; may be called again
	t        testing.TB
}

// noEvents is a subscriber without publishers.
func noEvents(ctx context.Context, s zmq.Subscription) error {
	s.OnConnect()
	<-ctx.Done()
	return nil
}

func noReplay(context.Context, string, uint64, func(zmq.Message) error) (int, error) { return 0, nil }

// Start runs a router until the test ends, with TLS where the test has it, and waits until all
// workers are ready. After the test, no rank may have the load of an ended request.
func Start(t testing.TB, workers []*Worker, options ...Option) *Router {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l := listen(t)
	cfg := Settings{
		Request: request.Config{MaxBodyBytes: 1 << 20, Clients: ingress.Limits{Stall: testkit.Patience}, Log: log},
		Server:  request.ServerConfig{Listener: l},
		Admin:   admin.Config{Version: "test", OnClients: true},
		// A machine that stalls makes no worker slow: tests of workers that hang set shorter times.
		Workers: worker.Config{Interval: 500 * time.Millisecond, Timeout: testkit.Patience, HangAfter: time.Hour, Log: log},
		Policy:  "kv",
	}
	transportTLS := &tls.Config{}
	if tlstest.Encrypted(t) {
		cfg.Server.TLS, cfg.Server.OperatorTLS, transportTLS = tlstest.Server(t), tlstest.Server(t), tlstest.Client(t)
		cfg.Workers.TLS = func(string) *tls.Config { return tlstest.Client(t) }
	}
	for _, o := range options {
		o(&cfg)
	}
	index := radix.New(radix.Config{})
	intake := ingest.NewManager(ingest.Config{Log: log}, index, noEvents, noReplay)
	believed, known := routing.NewApproxIndex(0), routing.NewKnownSessions(index)
	registry := worker.NewRegistry(cfg.Workers, worker.Observers{believed, known, intake})
	pick, err := policy.New(cfg.Policy, policy.Options{OverlapWeight: 1})
	require.NoError(t, err)
	watcher, err := ingress.NewWatcher()
	require.NoError(t, err)
	transport := upstream.NewTransport(upstream.Config{DialTimeout: testkit.Patience})
	r := &Router{
		t: t, Base: "http://" + l.Addr().String(), Client: &http.Client{Transport: &http.Transport{TLSClientConfig: transportTLS}},
		Registry: registry, Index: index, Fleet: fleet.NewManager(registry, nil, fleet.Config{Log: log}),
	}
	if cfg.Server.TLS != nil {
		r.Base = "https://" + l.Addr().String()
	}
	r.Operator = r.Base
	if cfg.operator {
		cfg.Server.Operator = listen(t)
		r.Operator = strings.Replace(r.Base, l.Addr().String(), cfg.Server.Operator.Addr().String(), 1)
	}
	if cfg.View == nil {
		cfg.View = intake.View
	}
	r.Routing = routing.New(registry, index, cfg.View, pick, rand.Uint64)
	r.Routing.Approx, r.Routing.Known = believed, known
	parts := request.Parts{Registry: registry, Index: index, Router: r.Routing, Transport: transport}
	for _, change := range cfg.RequestParts {
		change(&parts)
	}
	r.Requests = request.New(cfg.Request, parts)
	seen := admin.Parts{
		Requests: r.Requests, Registry: registry, Ingest: intake, Index: index, Router: r.Routing, Transport: transport, Fleet: r.Fleet,
	}
	for _, change := range cfg.AdminParts {
		change(&seen)
	}
	r.Admin = admin.New(cfg.Admin, seen)
	r.Server = request.NewServer(cfg.Server, watcher, r.Requests, r.Admin)
	r.run(watcher, transport)
	for _, w := range workers {
		require.NoError(t, r.Fleet.Add(worker.Spec{URL: w.URL}))
	}
	r.AwaitReady(len(workers))
	return r
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

func (r *Router) run(watcher *ingress.Watcher, transport *upstream.Transport) {
	serving, stopServing := context.WithCancel(context.Background())
	parts, stopParts := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	served := make(chan struct{})
	wg.Go(func() { defer close(served); _ = r.Server.Run(serving) })
	r.Fleet.Start(parts)
	wg.Go(func() { _ = r.Registry.Run(parts) })
	wg.Go(func() { _ = r.Fleet.Run(parts) })
	wg.Go(func() { _ = watcher.Run(parts) })
	r.Stop = sync.OnceFunc(func() {
		r.Client.CloseIdleConnections() // the drain looks every 100 ms whether all are closed
		stopServing()
		<-served
		stopParts()
		wg.Wait()
		_ = transport.Close()
		_ = watcher.Close()
		r.Client.CloseIdleConnections()
	})
	r.t.Cleanup(r.Stop)
	r.t.Cleanup(func() { testkit.Await(r.t, "load of ended requests is still counted", r.Unloaded) })
}

// Unloaded tells that no request is in flight and no rank has the load of one.
func (r *Router) Unloaded() bool {
	for _, rank := range r.Registry.Snapshot().Ranks {
		if rank.Load.InFlight() != 0 || rank.Load.Pending() != 0 || rank.Load.Waiting() != 0 || rank.Load.Reserved() != 0 {
			return false
		}
	}
	return r.Admin.Status().InFlight == 0
}

// AwaitReady waits until n workers, no more, are ready.
func (r *Router) AwaitReady(n int) {
	r.t.Helper()
	testkit.Await(r.t, "workers did not become ready", func() bool {
		ready := 0
		for _, w := range r.Registry.Snapshot().Workers {
			if w.State() == worker.Ready {
				ready++
			}
		}
		return ready == n
	})
}

// AwaitEnded waits until n requests have ended and are counted. A client has its answer before.
func (r *Router) AwaitEnded(n uint64) {
	r.t.Helper()
	testkit.Await(r.t, "requests have not ended", func() bool {
		st := r.Admin.Status()
		return st.Requests == n && st.InFlight == 0
	})
}

// AwaitIdle waits until no request is in flight. A client has its answer before, while the
// request still counts as its rank's load.
func (r *Router) AwaitIdle() {
	r.t.Helper()
	testkit.Await(r.t, "requests have not ended", func() bool { return r.Admin.Status().InFlight == 0 })
}

// Try sends one request with names and values of header fields, and reads the whole answer.
func (r *Router) Try(method, url, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Host = req.Header.Get("Host") // "": that of the URL
	resp, err := r.Client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

// Do is Try of a request that is answered.
func (r *Router) Do(method, url, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	resp, got, err := r.Try(method, url, body, header...)
	require.NoError(r.t, err)
	return resp, got
}

// Post sends a body as a client.
func (r *Router) Post(path, body string) (*http.Response, string) {
	r.t.Helper()
	return r.Do(http.MethodPost, r.Base+path, body)
}

// Metrics returns the operators' /metrics.
func (r *Router) Metrics() string {
	r.t.Helper()
	_, metrics := r.Do(http.MethodGet, r.Operator+"/metrics", "")
	return metrics
}

// Worker returns the registry's entry for a fake.
func (r *Router) Worker(f *Worker) *worker.Worker {
	r.t.Helper()
	w, err := r.Registry.Get(f.URL)
	require.NoError(r.t, err)
	return w
}

// Drain begins or ends the drain of a fake, as an operator does.
func (r *Router) Drain(f *Worker, on bool) {
	r.t.Helper()
	_, err := r.Fleet.Drain(r.t.Context(), fleet.Target{URL: f.URL}, on)
	require.NoError(r.t, err)
}

// Held returns the tokens of all ranks in the approximate tree.
func (r *Router) Held() (tokens int64) {
	for _, rank := range r.Registry.Snapshot().Ranks {
		tokens += r.Routing.Approx.Held(rank)
	}
	return tokens
}
