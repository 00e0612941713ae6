package request

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/request/quarantine"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
)

// Tokenizer turns text and messages into the token ids that target, a worker's
// URL, would make of them.
type Tokenizer interface {
	Prompt(done <-chan struct{}, target string, req *openai.Request) (tokens.Prompt, error)
}

// Config holds the server's settings; zero fields take the defaults.
type Config struct {
	Listener         net.Listener // clients
	TLS              *tls.Config  // of Listener; nil: plain HTTP
	Operator         net.Listener // operators; nil serves their API on Listener too
	OperatorTLS      *tls.Config  // of Operator; nil: plain HTTP
	OperatorKey      string       // bearer token for the operator API; "" asks for none
	Version          string
	MaxBodyBytes     int           // default 64 MiB
	MaxHeaderBytes   int           // default 16 KiB; each connection keeps a buffer of that size
	MaxClients       int           // connections of clients at once; default as many as have files for themselves and for a worker each; negative: any number
	GzipMinBytes     int           // JSON answers from this size on are compressed for clients that ask; default 4 KiB; negative: none
	ForwardIDs       bool          // plain chats carry their token ids to the worker, once the ids are proved
	Queue            QueueConfig   // of requests while all workers are full
	Pair             PairConfig    // of requests to a prefill and a decode worker
	Quarantine       time.Duration // a request that ended two engines is refused; default 5 min
	Retries          int           // further workers tried before the answer begins; default 3; negative: none
	FirstByteTimeout time.Duration // default 30 min: long prompts wait in the worker's queue
	StallTimeout     time.Duration // between two reads of an answer; default 10 min
	DrainTimeout     time.Duration // for requests in flight at shutdown; default 30 s
	Log              *slog.Logger
}

func (c *Config) setDefaults() {
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 64<<20)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 16<<10)
	c.MaxClients = cmp.Or(c.MaxClients, ingress.DefaultMaxClients())
	c.GzipMinBytes = cmp.Or(c.GzipMinBytes, defaultGzipMin)
	c.Retries = cmp.Or(c.Retries, 3)
	c.FirstByteTimeout = cmp.Or(c.FirstByteTimeout, 30*time.Minute)
	c.StallTimeout = cmp.Or(c.StallTimeout, 10*time.Minute)
	c.Pair.setDefaults(c.FirstByteTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Parts are what the server serves with.
type Parts struct {
	Registry  *worker.Registry
	Ingest    *ingest.Manager
	Index     *radix.Index
	Router    *routing.Router
	Transport *upstream.Transport
	Watcher   *ingress.Watcher
	Tokenizer Tokenizer          // nil: text is known by its answers only
	Models    *tokens.Models     // nil: all ids are made by workers
	Sessions  *promptcache.Cache // nil: every prompt is read from its beginning
	Lint      *lint.Sampler      // nil: prompts are not looked at
	HugeBytes func() int64       // of the process, in huge pages; nil: they were not asked for
	AccessLog *accesslog.Log     // nil: none is kept

	Replicas     *peers.Group            // nil: no other router is asked or told
	Cluster      Cluster                 // nil: the router is of none
	Tiers        func() directory.Status // what is known of KV tiers; nil: nothing
	Fleet        Fleet                   // nil: the registry has the workers that it is told to have
	ConfigStatus func() ConfigStatus     // nil: nothing is known of a configuration

	Metrics []prometheus.Collector // served beside the server's own
}

// Server serves clients and operators.
type Server struct {
	Parts
	cfg       Config                 // as it was at first
	current   atomic.Pointer[Config] // see Configure
	client    *ingress.Server
	operator  *ingress.Server // nil when the client's listener serves both
	metrics   *metrics
	exchanges sync.Pool
	aborts    *aborter
	started   time.Time
	inFlight  atomic.Int64
	draining  atomic.Bool
	refusals  refusals
	budget    budget    // of second opinions
	waits     *waitRoom // nil: no request waits here
	rooms     *disagg.Rooms

	limits   modelLimits
	ward     *quarantine.Ward
	twins    quarantine.Twins
	wardSeed maphash.Seed // of its names

	compressors upstream.Compressors
}

// New returns a server over these parts.
func New(cfg Config, parts Parts) *Server {
	cfg.setDefaults()
	s := &Server{Parts: parts, cfg: cfg, started: time.Now(), rooms: disagg.NewRooms()}
	s.current.Store(&cfg)
	s.ward, s.wardSeed = quarantine.New(quarantine.Config{For: cfg.Quarantine, Log: cfg.Log}), maphash.MakeSeed()
	if s.Fleet == nil {
		s.Fleet = registryFleet{s.Registry}
	}
	s.metrics = newMetrics(s)
	if s.waits = newWaitRoom(s); s.waits != nil {
		s.metrics.showQueue(s.waits)
	}
	if s.AccessLog != nil {
		s.metrics.showAccessLog(s.AccessLog)
	}
	if s.Lint != nil {
		s.metrics.registry.MustRegister(lintCollector{s.Lint})
	}
	s.aborts = newAborter(parts.Transport, s.metrics, cfg.Log)
	s.exchanges.New = func() any { return newExchange(s) }
	s.client = s.listen(s.handleClient, cfg.TLS, max(cfg.MaxClients, 0))
	if cfg.Operator != nil {
		s.operator = s.listen(s.handleOperator, cfg.OperatorTLS, 0)
	}
	return s
}

// listen returns a server for h, for one of the listeners.
func (s *Server) listen(h fasthttp.RequestHandler, encrypted *tls.Config, mostClients int) *ingress.Server {
	return ingress.NewServer(ingress.Config{
		Handler: h, Refuse: s.badRequest,
		MaxBody: func() int { return s.live().MaxBodyBytes }, MaxHead: s.cfg.MaxHeaderBytes,
		MaxClients: mostClients,
		Full: sync.OnceFunc(func() {
			s.cfg.Log.Warn("clients wait to be accepted: the limit of open files leaves room for no more; raise ulimit -n", "connections", mostClients)
		}),
		TLS: encrypted, HandshakeFailed: s.refused, Watcher: s.Watcher, Log: s.cfg.Log,
	})
}

// Addr returns where clients connect.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// Connections returns how many connections of clients are open.
func (s *Server) Connections() int { return s.client.Connections() }

// Run serves until ctx ends, then drains: new connections are refused,
// requests in flight are answered, and what has not ended by DrainTimeout is
// cut.
func (s *Server) Run(ctx context.Context) error {
	var g errgroup.Group
	failed := make(chan struct{}, 2)
	serve := func(srv *ingress.Server, l net.Listener) {
		g.Go(func() error {
			err := srv.Serve(l)
			failed <- struct{}{}
			if err != nil {
				return fmt.Errorf("cannot serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	serve(s.client, s.cfg.Listener)
	sweeping, stopSweeping := context.WithCancel(context.Background())
	g.Go(func() error { s.sweep(sweeping); return nil })
	if s.operator != nil {
		serve(s.operator, s.cfg.Operator)
	}
	select {
	case <-ctx.Done():
	case <-failed:
	}
	s.drain()
	s.aborts.wait()
	stopSweeping()
	return g.Wait()
}

// sweep closes upstream connections that the workers have closed or that were
// idle for too long; a target that gets no request would keep them.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Transport.Sweep()
		}
	}
}

// sweepEvery is about the transport's idle timeout.
const sweepEvery = 5 * time.Second

// drain ends the servers; the operator's last, so that a drain can be watched.
func (s *Server) drain() {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.live().DrainTimeout)
	defer cancel()
	if err := s.client.Shutdown(ctx); err != nil {
		s.cfg.Log.Warn("requests were cut at shutdown", "in_flight", s.inFlight.Load(), "error", err)
	}
	if s.waits != nil {
		s.waits.Close() // who waits still was cut
	}
	if s.operator != nil {
		_ = s.operator.Shutdown(ctx)
	}
}
