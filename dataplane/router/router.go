package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/load"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/radix/hugepage"
	"github.com/warmpath/warmpath/zmq"
)

// Router is one router.
type Router struct {
	cfg       Config
	index     *radix.Index
	intake    *ingest.Manager
	registry  *worker.Registry
	keeper    *keeper
	places    *places
	reloads   reloads
	transport *upstream.Transport
	watcher   *ingress.Watcher
	models    *tokens.Models // nil: workers make all token ids
	requests  *request.Handler
	admin     *admin.API
	server    *request.Server
	lint      *lint.Sampler    // nil: prompts are not looked at
	pages     *hugepage.Keeper // nil: the heap is left alone
	accessLog *accesslog.Log   // nil: none is kept
	replicas  *peers.Group     // nil: this router chooses by itself, always
	shelves   *directory.Index // nil: what KV tiers hold is not known
	hints     *hinter          // nil: no node is told what to pull
	snapshots *snapshots
	listeners []net.Listener
	started   time.Time
}

// New checks the configuration and binds the listeners. Run must follow, or
// Close where it cannot.
func New(cfg Config) (*Router, error) {
	given := cfg
	cfg.setDefaults()
	if err := errors.Join(cfg.check(), checkTLS(&cfg), checkSnapshot(cfg.Snapshot), checkTokenize(&cfg), checkReplicas(&cfg)); err != nil {
		return nil, err
	}
	named, err := sources(&cfg)
	if err != nil {
		return nil, err
	}
	encrypted, toWorkers, err := loadTLS(&cfg)
	if err != nil {
		return nil, err
	}
	pick, err := newPolicy(&cfg)
	if err != nil {
		return nil, err
	}
	tuneRuntime()
	saved := &snapshots{maxBytes: cfg.IndexMaxBytes, file: cfg.Snapshot, every: cfg.SnapshotInterval, log: cfg.Log}
	restored := saved.load()
	d := &Router{cfg: cfg, pages: hugePages(cfg), snapshots: saved, index: saved.index, transport: upstream.NewTransport(upstream.Config{}), started: time.Now()}
	if d.watcher, err = ingress.NewWatcher(); err != nil {
		return nil, err
	}
	believed := routing.NewApprox(cfg.ApproxMaxBytes)
	d.intake = ingest.NewManager(ingest.Config{Log: cfg.Log, OnRestart: believed.ClearRank}, d.index, zmq.Subscribe, zmq.Replay)
	d.intake.Restore(restored)
	saved.intake = d.intake
	offers := &offers{}
	loads := load.New(load.Subscriber(zmq.Subscribe), cfg.Log)
	d.registry = worker.NewRegistry(worker.Config{
		Interval: cfg.ProbeInterval, Timeout: cfg.ProbeTimeout, HangAfter: cfg.HangAfter, Log: cfg.Log, TLS: toWorkers.Config, Dial: upstream.Dial,
	}, observers{believed, d.intake, loads, offers, deaths{d}})
	d.keeper = newKeeper(d.registry, keeperConfig{Drain: cfg.DrainTimeout, Log: cfg.Log})
	if cfg.Cluster != nil {
		d.keeper.marker = cfg.Cluster
	}
	d.keeper.use(append(named, d.builtIn()...))
	d.reloads.begin(&given)
	source, sessions, err := d.tokenizers(offers)
	if err != nil {
		return nil, err
	}
	if err := d.listen(); err != nil {
		d.Close()
		return nil, err
	}
	router := d.newRouter(pick, believed)
	parts := request.Parts{
		Registry: d.registry, Index: d.index, Router: router, Transport: d.transport,
		Tokenizer: source, PromptCache: sessions, Models: d.models,
	}
	if err := d.newServer(parts, encrypted); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// newServer completes parts by the optional ones and makes the server of them.
func (d *Router) newServer(parts request.Parts, encrypted listenerTLS) (err error) {
	if d.cfg.LintSample > 0 {
		d.lint = lint.NewSampler(d.cfg.LintSample)
		parts.Lint = d.lint
	}
	if d.accessLog, err = openAccessLog(&d.cfg); err != nil {
		return err
	}
	parts.AccessLog = d.accessLog
	d.requests = request.New(d.requestConfig(), parts)
	d.admin = d.newAdmin(&parts)
	cfg := request.ServerConfig{Listener: d.listeners[0], TLS: encrypted.client, OperatorTLS: encrypted.operator}
	if len(d.listeners) > 1 {
		cfg.Operator = d.listeners[1]
	}
	d.server = request.NewServer(cfg, d.watcher, d.requests, d.admin)
	return nil
}

// newAdmin returns the operator API.
func (d *Router) newAdmin(parts *request.Parts) *admin.API {
	all := admin.Parts{
		Requests: d.requests, Registry: d.registry, Ingest: d.intake, Index: d.index, Router: parts.Router, Transport: d.transport,
		Models: d.models, PromptCache: parts.PromptCache, Lint: d.lint, AccessLog: d.accessLog, Snapshots: d.snapshots.Status,
		Peers: d.replicas, Fleet: d.keeper, Config: d.reloads.Status,
	}
	if d.cfg.Cluster != nil {
		all.Cluster = d.cfg.Cluster
	}
	if d.shelves != nil {
		all.Metrics = append(all.Metrics, d.shelves.Collector())
		all.Tiers = d.shelves.Status
	}
	if d.hints != nil {
		all.Metrics = append(all.Metrics, hintCollector{d.hints})
	}
	if d.pages != nil {
		all.HugeBytes = d.pages.HugeBytes
	}
	return admin.New(admin.Config{Key: d.cfg.OperatorKey, OnClients: d.cfg.OperatorListen == "", Version: d.cfg.Version}, all)
}

// blockSize returns the tokens a block that block hashes are kept for: those of the first shape that is not in bigrams.
// Prompts for models of another shape are hashed at each request.
func (d *Router) blockSize() int {
	for _, shape := range d.intake.View().Shapes {
		if !shape.Bigram {
			return shape.BlockSize
		}
	}
	return 0
}

func (d *Router) requestConfig() request.Config {
	return request.Config{
		MaxBodyBytes: d.cfg.MaxBodyBytes, GzipMinBytes: d.cfg.GzipMinBytes, ForwardIDs: d.cfg.ForwardIDs, Retries: d.cfg.Retries,
		Quarantine: d.cfg.Quarantine,
		Queue: request.QueueConfig{
			Max: d.cfg.QueueMax, Timeout: d.cfg.QueueTimeout, MaxInFlight: d.cfg.MaxInFlight, FIFO: d.cfg.QueueFIFO,
		},
		Pair:             request.PairConfig{Timeout: d.cfg.PairTimeout, PrefillTimeout: d.cfg.PrefillTimeout, Headers: d.cfg.PairHeaders},
		FirstByteTimeout: d.cfg.FirstByteTimeout, StallTimeout: d.cfg.StallTimeout, DrainTimeout: d.cfg.DrainTimeout, Log: d.cfg.Log,
	}
}

func (d *Router) listen() error {
	addrs := []string{d.cfg.Listen}
	if d.cfg.OperatorListen != "" {
		addrs = append(addrs, d.cfg.OperatorListen)
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("cannot listen on %s: %w: stop who listens there, or give another address", addr, syscall.EADDRINUSE)
			}
			return fmt.Errorf("cannot listen on %s: %w", addr, err)
		}
		d.listeners = append(d.listeners, l)
	}
	return nil
}

// Addr returns where clients connect.
func (d *Router) Addr() string { return d.listeners[0].Addr().String() }

// OperatorAddr returns where operators connect.
func (d *Router) OperatorAddr() string { return d.listeners[len(d.listeners)-1].Addr().String() }

// Status returns the router's state now.
func (d *Router) Status() admin.Status { return d.admin.Status() }

// Run serves until ctx ends and everything has drained.
func (d *Router) Run(ctx context.Context) error {
	defer d.Close()
	defer trimOnceStarted()()
	// The parts outlive ctx: requests in flight at shutdown still need them.
	parts := context.WithoutCancel(ctx)
	var g errgroup.Group
	workers, stopWorkers := context.WithCancel(parts)
	defer stopWorkers()
	g.Go(func() error { return d.registry.Run(workers) })
	g.Go(func() error { return d.watcher.Run(workers) })
	if d.models != nil {
		g.Go(func() error { return d.models.Run(workers) })
	}
	if d.lint != nil {
		g.Go(func() error { return d.lint.Run(workers) })
	}
	if d.accessLog != nil {
		g.Go(func() error { return d.accessLog.Run(workers) })
	}
	if d.pages != nil {
		g.Go(func() error { return d.pages.Run(workers, hugepage.DefaultInterval) })
	}
	g.Go(func() error { return new(quiet).run(workers, quietFor) })
	if d.cfg.Node != nil {
		g.Go(func() error { return d.followNode(workers) })
	}
	if d.replicas != nil {
		g.Go(func() error { return d.replicas.Run(workers) })
	}
	if d.hints != nil {
		g.Go(func() error { d.hints.run(workers); return nil })
	}
	if d.cfg.Cluster != nil {
		g.Go(func() error { return d.places.follow(workers, d.cfg.Cluster) })
		g.Go(func() error { return d.shelves.Run(workers) })
		g.Go(func() error { return d.followMarks(workers) })
	}
	d.keeper.start(workers)
	d.announce()
	g.Go(func() error { return d.keeper.Run(workers) })
	saves, lastSave := context.WithCancel(parts)
	defer lastSave()
	var saver sync.WaitGroup
	saver.Go(func() { d.snapshots.run(saves) })
	d.awaitCluster(ctx)
	err := d.server.Run(ctx)
	// Streams that end forget.
	lastSave()
	saver.Wait()
	stopWorkers()
	return errors.Join(err, g.Wait())
}

// Close frees what New bound. Run does it by itself.
func (d *Router) Close() {
	for _, l := range d.listeners {
		_ = l.Close()
	}
	_ = d.transport.Close()
	_ = d.watcher.Close()
}
