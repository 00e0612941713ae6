package request

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// ServerConfig holds the settings of the listeners; zero fields take the defaults.
type ServerConfig struct {
	Listener       net.Listener // clients
	TLS            *tls.Config  // of Listener; nil: plain HTTP
	Operator       net.Listener // operators; nil: clients' listener serves their API too
	OperatorTLS    *tls.Config  // of Operator; nil: plain HTTP
	MaxHeaderBytes int          // default 16 KiB; each connection keeps a buffer of that size
	// MaxClients bounds the connections of clients; default as many as leave files for as many
	// connections to workers; negative: no bound.
	MaxClients int
}

// Admin answers the paths that no worker serves: admin.API.
type Admin interface {
	// ServeClient answers a client's request where its path is the router's own, and reports whether it
	// is.
	ServeClient(ctx *fasthttp.RequestCtx) bool
	// ServeOperator serves the operators' listener.
	ServeOperator(ctx *fasthttp.RequestCtx)
}

// Server owns the listeners of clients and operators.
type Server struct {
	*Handler
	cfg      ServerConfig
	watcher  *upstream.Watcher
	admin    Admin
	client   *fasthttp.Server
	operator *fasthttp.Server // nil when the clients' listener serves both
	refusals refusals
}

// NewServer returns a server of h and admin.
func NewServer(cfg ServerConfig, watcher *upstream.Watcher, h *Handler, admin Admin) *Server {
	cfg.MaxHeaderBytes = cmp.Or(cfg.MaxHeaderBytes, 16<<10)
	cfg.MaxClients = cmp.Or(cfg.MaxClients, clientsFor(fileLimit()))
	s := &Server{Handler: h, cfg: cfg, watcher: watcher, admin: admin}
	s.client = s.fasthttp(s.handleClient)
	if cfg.Operator != nil {
		s.operator = s.fasthttp(admin.ServeOperator)
	}
	return s
}

func (s *Server) fasthttp(h fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			dropTrailer(&ctx.Request.Header)
			h(ctx)
		},
		HeaderReceived:        s.headerReceived,
		ExpectHandler:         s.expect,
		ErrorHandler:          s.badRequest,
		MaxRequestBodySize:    s.live().MaxBodyBytes,
		ReadBufferSize:        s.cfg.MaxHeaderBytes,
		WriteBufferSize:       4 << 10, // each stream has one. What is longer and whole leaves in one write by proxy.Stream
		ReduceMemoryUsage:     true,    // an idle connection has no buffers; proxy.Client sees to it that this costs no system call
		IdleTimeout:           idleTimeout,
		ConnState:             upstream.NoteState,
		ReadTimeout:           0, // a deadline for reading would also cut a stream that is being answered
		NoDefaultServerHeader: true,
		// A form would be taken apart, and its long parts written to files, for nobody.
		DisablePreParseMultipartForm: true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		TCPKeepalive:                 true,
		Logger:                       quiet{s.log},
	}
}

// Addr returns where clients connect.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// Connections returns how many connections of clients are open.
func (s *Server) Connections() int { return int(s.client.GetOpenConnectionsCount()) }

// Run serves until ctx ends, then drains: new connections are refused,
// requests in flight are answered, and what has not ended by DrainTimeout is
// cut.
func (s *Server) Run(ctx context.Context) error {
	var g errgroup.Group
	failed := make(chan struct{}, 2)
	serve := func(srv *fasthttp.Server, l net.Listener) {
		g.Go(func() error {
			err := srv.Serve(l)
			failed <- struct{}{}
			if err != nil && !errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("cannot serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	serve(s.client, s.encrypted(s.watcher.ListenPlain(s.cfg.Listener, s.plain()), s.cfg.TLS))
	sweeping, stopSweeping := context.WithCancel(context.Background())
	g.Go(func() error { s.sweep(sweeping); return nil })
	if s.operator != nil {
		serve(s.operator, s.encrypted(s.cfg.Operator, s.cfg.OperatorTLS))
	}
	select {
	case <-ctx.Done():
	case <-failed:
	}
	s.drain()
	// Where ctx ended before Serve had the listener, its Shutdown knew of none.
	_ = s.cfg.Listener.Close()
	if s.cfg.Operator != nil {
		_ = s.cfg.Operator.Close()
	}
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
	if err := s.client.ShutdownWithContext(ctx); err != nil {
		s.log.Warn("requests were cut at shutdown", "in_flight", s.inFlight.Load(), "error", err)
	}
	if gate := s.Queue(); gate != nil {
		gate.Close() // waiting requests were cut
	}
	if s.operator != nil {
		_ = s.operator.ShutdownWithContext(ctx)
	}
}

// quiet sends fasthttp's printf log, which has a line for each broken client
// connection, to the debug level.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug("fasthttp", "message", fmt.Sprintf(format, args...))
}
