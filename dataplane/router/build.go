package router

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/load"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/modelfile/hub"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/zmq"
)

// builder makes the parts of a router, each from those before it.
type builder struct {
	*Router
	parts   admin.Parts
	tokens  *tokens.Source
	approx  *routing.ApproxIndex
	known   *routing.KnownSessions
	models  *tokens.Models  // nil: workers make all token ids
	tracing *tracing.Tracer // nil: there is none

	clientKeys *clientkey.Keys // nil: clients need none
}

func newBuilder(r *Router) *builder {
	return &builder{Router: r, approx: routing.NewApproxIndex(r.cfg.Memory.Approx)}
}

// build makes all parts and the server over them.
func (b *builder) build() error {
	encrypted, toWorkers, err := b.cfg.LoadTLS()
	if err != nil {
		return err
	}
	var keys *worker.Keys
	if b.cfg.Sources.KeyFile != "" {
		if keys, err = worker.ReadKeys(b.cfg.Sources.KeyFile, b.cfg.Log); err != nil {
			return err
		}
	}
	if b.clientKeys, err = b.readClientKeys(); err != nil {
		return err
	}
	b.files = []func(){
		func() { tlsconfig.Reload(encrypted.Client) }, func() { tlsconfig.Reload(encrypted.Operator) }, toWorkers.Reload, keys.Reload,
	}
	b.buildIndex()
	folders, err := tokens.ParseFolders(b.cfg.Tokenize.ModelPaths)
	if err != nil {
		return err
	}
	here := slices.DeleteFunc(slices.Collect(maps.Values(folders)), atHub)
	files := modelfile.New(slices.Concat(modelfile.DefaultFolders(), here, b.cfg.Tokenize.AllowedPaths))
	if err := b.buildTokenizer(folders, files); err != nil {
		return err
	}
	b.buildFleet(worker.Config{
		Interval: b.cfg.Probes.Interval, Timeout: b.cfg.Probes.Timeout, HangAfter: b.cfg.Probes.HangAfter,
		Log: b.cfg.Log, TLS: toWorkers.Config, Dial: upstream.Dialer(b.networks.Control), Key: keys.Of, Files: files,
		Resolve: resolve, Moved: b.transport.Renew,
	})
	if err := b.buildRouting(); err != nil {
		return err
	}
	if err := b.buildLogs(); err != nil {
		return err
	}
	b.run(b.watcher.Run)
	b.buildServer(encrypted)
	return nil
}

// resolve returns the addresses of a name as dials find them.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// buildServer makes the handler of requests, the operator API and the server over both.
func (b *builder) buildServer(encrypted config.ListenerTLS) {
	p := &b.parts
	b.requests = request.New(b.requestConfig(), request.Parts{
		Registry: p.Registry, Index: p.Index, Router: p.Router, Transport: b.transport,
		Tokenizer: b.tokens, Models: p.Models, PromptCache: p.PromptCache, Lint: p.Lint, AccessLog: p.AccessLog,
		Tracing: b.tracing, Keys: b.clientKeys,
	})
	p.Requests, p.Transport, p.Snapshots, p.Config = b.requests, b.transport, b.snapshots.Status, b.reload.Status
	b.admin = admin.New(admin.Config{Key: b.cfg.Operator.Key, Hosts: b.cfg.Operator.Hosts, OnClients: b.cfg.Operator.Listen == "", Version: b.cfg.Version}, *p)
	b.run(b.admin.Run)
	cfg := request.ServerConfig{Listener: b.listeners[0], TLS: encrypted.Client, OperatorTLS: encrypted.Operator, MaxHead: b.cfg.Requests.Clients.MaxHead}
	cfg.Kept = b.cfg.Sockets != nil && b.cfg.Sockets.Kept
	if len(b.listeners) > 1 {
		cfg.Operator = b.listeners[1]
	}
	b.server = request.NewServer(cfg, b.watcher, b.requests, b.admin)
}

// readClientKeys reads the clients' keys and the keys of their tokens' issuer, where there are any,
// and follows them.
func (b *builder) readClientKeys() (*clientkey.Keys, error) {
	c := &b.cfg.Requests.Clients
	if c.Keys == "" && c.JWKS == "" {
		return nil, nil
	}
	keys, err := clientkey.Read(c.Keys, b.cfg.Log)
	if err != nil {
		return nil, err
	}
	b.run(keys.Run)
	if c.JWKS != "" {
		v, err := jwks.New(context.Background(), jwks.Config{Source: c.JWKS, Issuer: c.Issuer, Audience: c.TokenAudience, Log: b.cfg.Log})
		if err != nil {
			return nil, fmt.Errorf("cannot use --client-jwks: %w", err)
		}
		keys.AcceptTokens(v)
		b.run(v.Run)
	}
	return keys, nil
}

// run adds a service.
func (b *builder) run(f func(context.Context) error) { b.services = append(b.services, f) }

// buildIndex loads the index and makes the intake of events.
func (b *builder) buildIndex() {
	b.snapshots = ingest.NewSnapshots(ingest.SnapshotConfig{
		File: b.cfg.Snapshot.File, Interval: b.cfg.Snapshot.Interval, MaxBytes: b.cfg.Memory.Index, Log: b.cfg.Log,
	})
	index, restored := b.snapshots.Load()
	intake := ingest.NewManager(ingest.Config{Log: b.cfg.Log, OnRestart: b.rankCleared, OnClear: b.rankCleared}, index, b.subscribe, b.replay)
	b.known = routing.NewKnownSessions(index)
	intake.Restore(restored)
	b.snapshots.Follow(intake)
	b.parts.Index, b.parts.Ingest = index, intake
}

// rankCleared notes that the cache of a rank is empty.
func (b *builder) rankCleared(rank *worker.Rank) {
	b.approx.ClearRank(rank)
	b.known.ClearRank(rank)
}

// subscribe is zmq.Subscribe for endpoints in the networks of workers, which name them themselves.
func (b *builder) subscribe(ctx context.Context, s zmq.Subscription) error {
	if err := b.checkEndpoint(s.Endpoint); err != nil {
		return err
	}
	return zmq.Subscribe(ctx, s)
}

// replay is zmq.Replay for such endpoints.
func (b *builder) replay(ctx context.Context, endpoint string, from uint64, each func(zmq.Message) error) (int, error) {
	if err := b.checkEndpoint(endpoint); err != nil {
		return 0, err
	}
	return zmq.Replay(ctx, endpoint, from, each)
}

func (b *builder) checkEndpoint(endpoint string) error {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	if err := b.networks.CheckHost(host); err != nil {
		return fmt.Errorf("cannot connect to %s: %w", endpoint, err)
	}
	return nil
}

// buildTokenizer makes the tokenizer and the prompt cache.
func (b *builder) buildTokenizer(folders map[string]string, files *modelfile.Reader) error {
	fetch := tokens.NewWorkerFetcher(b.transport, func(url string) (upstream.Target, error) {
		w, err := b.registry.Get(url)
		if err != nil {
			return upstream.Target{}, err
		}
		return upstream.Target{Addr: w.Addr, TLS: w.TLS}, nil
	})
	fetch.Authorization = func(url string) []byte {
		if w, err := b.registry.Get(url); err == nil {
			return w.Key().API()
		}
		return nil
	}
	blockSize := func() int { return b.parts.Ingest.View().BlockSize() }
	source, err := tokens.New(tokens.Config{Fetch: fetch, Index: b.parts.Index, BlockSize: blockSize})
	if err != nil {
		return err
	}
	prompts, err := promptcache.New(promptcache.Config{MaxBytes: b.cfg.Memory.PromptCache, Index: b.parts.Index, BlockSize: blockSize})
	if err != nil {
		return err
	}
	b.tokens, b.parts.PromptCache = source, prompts
	if b.cfg.Tokenize.By == config.TokenizeByWorkers {
		return nil
	}
	cfg := tokens.ModelsConfig{Source: source, PromptCache: prompts, Folders: folders, Files: files, Log: b.cfg.Log}
	if slices.ContainsFunc(slices.Collect(maps.Values(folders)), atHub) {
		settings := hub.FromEnvironment()
		settings.Log = b.cfg.Log
		if cfg.Hub, err = hub.New(settings); err != nil {
			return fmt.Errorf("cannot use --model-path: %w", err)
		}
	}
	if b.cfg.Tokenize.ForwardIDs { // a wrong id makes a wrong answer, not only a worse choice
		cfg.NeededInARow, cfg.SampleEvery = 32, 32
	}
	b.models = tokens.NewModels(cfg)
	b.parts.Models = b.models
	b.run(b.models.Run)
	return nil
}

// atHub reports whether an operator's path of a model is a name at Hugging Face's hub.
func atHub(path string) bool {
	_, at := modelfile.OperatorHubName(path)
	return at
}

// buildFleet makes the registry of workers and its manager.
func (b *builder) buildFleet(cfg worker.Config) {
	b.registry = worker.NewRegistry(cfg, worker.Observers{
		b.approx, b.known, b.parts.Ingest, load.New(load.Subscriber(b.subscribe), b.cfg.Log),
		tokens.WorkerObserver{Models: b.models},
	})
	var marker fleet.Marker
	if b.cfg.Cluster.Conn != nil {
		marker = b.cfg.Cluster.Conn
	}
	b.fleet = fleet.NewManager(b.registry, marker, fleet.Config{Drain: b.cfg.Timeouts.Drain, Networks: b.networks, Log: b.cfg.Log})
	b.fleet.SetSources(b.allSources(&b.cfg))
	b.parts.Registry, b.parts.Fleet = b.registry, b.fleet
	b.run(b.registry.Run)
	if b.cfg.Node != nil {
		b.run(func(ctx context.Context) error { fleet.FollowHealth(ctx, b.cfg.Node, b.registry.Get); return nil })
	}
}

// allSources returns the configured sources and the built-in ones.
func (r *Router) allSources(cfg *Config) []discover.Source {
	all, _ := cfg.Sources.Sources(cfg.Log) // Check has returned the error
	if r.cfg.Node != nil {
		all = append(all, r.cfg.Node)
	}
	if c := r.cfg.Cluster.Conn; c != nil {
		all = append(all, fleet.NewClusterSource(c, r.registry.Get, r.cfg.Log))
	}
	return all
}

// buildRouting makes the choice, and in a cluster its peers and KV tiers.
func (b *builder) buildRouting() error {
	choice, err := b.cfg.Policy.New()
	if err != nil {
		return err
	}
	router := routing.New(b.registry, b.parts.Index, b.parts.Ingest.View, choice, rand.Uint64)
	router.Approx, router.MinUncached = b.approx, b.cfg.Pairs.MinUncached
	router.Known = b.known
	if b.cfg.Policy.SessionAffinity {
		router.Sessions = routing.NewSessions()
	}
	b.parts.Router = router
	if b.cfg.Cluster.Conn != nil {
		b.joinCluster(router)
	}
	return nil
}

// joinCluster shares load and predictions with other routers, and follows nodes and KV tiers.
func (b *builder) joinCluster(router *routing.Router) {
	c := b.cfg.Cluster.Conn
	b.parts.Cluster = c
	if b.cfg.Cluster.Peers != config.PeersOff {
		g := peers.New(peers.Config{ID: c.Instance(), Bus: c, Registry: b.registry, Predictions: router.Shared, Log: b.cfg.Log})
		router.Peers, b.parts.Peers = g, g
		b.run(g.Run)
	}
	if keys := b.clientKeys; keys != nil {
		b.run(func(ctx context.Context) error { return keys.Share(ctx, c, c.Instance(), b.cfg.Log) })
	}
	tiers := directory.New(directory.Config{
		Bus: c, Log: b.cfg.Log, Hash: func(ids []uint32) uint64 { return uint64(b.parts.Index.HashBlock(ids)) },
	})
	router.Tiers = tiers
	b.parts.Tiers, b.parts.Metrics = tiers.Status, append(b.parts.Metrics, tiers.Collector())
	topology := fleet.NewTopology(b.registry, router.SetLinks, tiers.SetNodes)
	if b.cfg.Cluster.Hints != config.HintsOff {
		hints := directory.NewHintSender(c, topology.Name)
		router.Pulls = hints
		b.parts.Metrics = append(b.parts.Metrics, hints.Collector())
		b.run(hints.Run)
	}
	b.run(func(ctx context.Context) error { return topology.Follow(ctx, c) })
	b.run(tiers.Run)
	b.member = fleet.NewMembership(c, b.fleet, cluster.Router{
		Addr: b.Addr(), Operator: b.OperatorAddr(), Version: b.cfg.Version, Started: time.Now(),
	}, b.cfg.Log)
	b.run(b.member.Run)
}

// buildLogs opens the access log and makes the sampler of prompts and the tracer, where they are
// asked for.
func (b *builder) buildLogs() (err error) {
	if b.cfg.Logs.LintSample > 0 {
		b.parts.Lint = lint.NewSampler(b.cfg.Logs.LintSample)
		b.run(b.parts.Lint.Run)
	}
	if b.cfg.Logs.Access != "" {
		log := b.cfg.Log
		b.accessLog, err = accesslog.Open(b.cfg.Logs.Access, func(err error) { log.Error("access log", "error", err) })
		if err != nil {
			return err
		}
		b.parts.AccessLog = b.accessLog
		b.run(b.accessLog.Run)
	}
	// The last part that can fail: what it starts ends with Run.
	b.tracing, err = tracing.New(tracing.Config{Endpoint: b.cfg.Logs.Traces, Version: b.cfg.Version, Log: b.cfg.Log})
	if b.tracing != nil {
		b.parts.Metrics = append(b.parts.Metrics, b.tracing.Collector())
		b.run(b.tracing.Run)
	}
	return err
}

func (b *builder) requestConfig() request.Config {
	cfg := request.Config{
		Proxies: b.proxies, ForwardIDs: b.cfg.Tokenize.ForwardIDs, Quarantine: b.cfg.Requests.Quarantine, Log: b.cfg.Log,
		Queue: request.QueueConfig{Max: b.cfg.Queue.Max, Timeout: b.cfg.Queue.Timeout, FIFO: b.cfg.Queue.FIFO},
	}
	applyLive(&cfg, &b.cfg)
	return cfg
}
