package request

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/ingress"
)

// ServerConfig holds the settings of the listeners; zero fields take the defaults.
type ServerConfig struct {
	Listener    net.Listener // clients
	TLS         *tls.Config  // of Listener; nil: plain HTTP
	Operator    net.Listener // operators; nil: clients' listener serves their API too
	OperatorTLS *tls.Config  // of Operator; nil: plain HTTP
	MaxHead     int          // default 16 KiB; each connection keeps a buffer of that size
	// MaxClients bounds the connections of clients; default as many as leave files for as many
	// connections to workers; negative: no bound.
	MaxClients int
}

// Admin answers the paths that no worker serves: admin.API.
type Admin interface {
	// ServeClient answers a client's request where its path is the router's own, and reports
	// whether it is.
	ServeClient(ctx *fasthttp.RequestCtx) bool
	// ServeOperator serves the operators' listener.
	ServeOperator(ctx *fasthttp.RequestCtx)
}

// Server owns the listeners of clients and operators.
type Server struct {
	cfg      ServerConfig
	requests *Handler
	admin    Admin
	watcher  *ingress.Watcher
	client   *ingress.Server
	operator *ingress.Server // nil when the clients' listener serves both
	refusals refusals
}

// NewServer returns a server of h and admin.
func NewServer(cfg ServerConfig, watcher *ingress.Watcher, h *Handler, admin Admin) *Server {
	cfg.MaxHead = cmp.Or(cfg.MaxHead, 16<<10)
	cfg.MaxClients = cmp.Or(cfg.MaxClients, ingress.DefaultMaxClients())
	s := &Server{cfg: cfg, requests: h, admin: admin, watcher: watcher}
	s.client = s.listen(s.handleClient, cfg.TLS, max(cfg.MaxClients, 0))
	if cfg.Operator != nil {
		s.operator = s.listen(admin.ServeOperator, cfg.OperatorTLS, 0)
	}
	return s
}

// listen returns a server of h for one of the listeners.
func (s *Server) listen(h fasthttp.RequestHandler, encrypted *tls.Config, maxClients int) *ingress.Server {
	return ingress.NewServer(ingress.Config{
		Handler: h, Refuse: s.badRequest,
		MaxBody: func() int { return s.requests.live().MaxBodyBytes }, MaxHead: s.cfg.MaxHead,
		MaxClients: maxClients,
		Full: sync.OnceFunc(func() {
			s.requests.log.Warn("clients wait to be accepted: the limit of open files leaves room for no more; raise ulimit -n",
				"connections", maxClients)
		}),
		TLS: encrypted, HandshakeFailed: s.refused, Watcher: s.watcher,
		Log: s.requests.log,
	})
}

// Connections returns the number of open connections of clients.
func (s *Server) Connections() int { return s.client.Connections() }

// Run serves until ctx ends, then drains: new connections are refused, requests in flight are
// answered, and requests that have not ended by DrainTimeout are cut.
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
	s.requests.aborts.wait()
	stopSweeping()
	return g.Wait()
}

// sweep closes connections to workers that the workers have closed or that were idle for too long;
// a worker that gets no request would keep them.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.requests.Transport.Sweep()
		}
	}
}

// sweepEvery is about the transport's idle timeout.
const sweepEvery = 5 * time.Second

// drain ends the listeners' servers; the operators' last, so that they can watch the drain.
func (s *Server) drain() {
	h := s.requests
	h.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), h.live().DrainTimeout)
	defer cancel()
	if err := s.client.Shutdown(ctx); err != nil {
		h.log.Warn("requests were cut at shutdown", "in_flight", h.inFlight.Load(), "error", err)
	}
	if gate := h.Queue(); gate != nil {
		gate.Close() // waiting requests were cut
	}
	if s.operator != nil {
		_ = s.operator.Shutdown(ctx)
	}
}
