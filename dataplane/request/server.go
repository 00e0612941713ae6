package request

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// ServerConfig holds the settings of the listeners; zero fields take the defaults.
type ServerConfig struct {
	Listener    net.Listener // clients
	TLS         *tls.Config  // of Listener; nil: plain HTTP
	Operator    net.Listener // operators; nil: clients' listener serves their API too
	OperatorTLS *tls.Config  // of Operator; nil: plain HTTP
	MaxHead     int          // default 16 KiB; each busy connection has a buffer of that size
	Kept        bool         // clients wait at Listener for the next process
}

// Admin answers the paths that no worker serves: admin.API.
type Admin interface {
	// ServeClient answers a client's request where its path is the router's own, and reports
	// whether it is.
	ServeClient(ctx *fasthttp.RequestCtx) bool
	// ServeOperator serves the operators' listener.
	ServeOperator(ctx *fasthttp.RequestCtx)
	// Open reports whether ServeClient answers a request without a client's key.
	Open(ctx *fasthttp.RequestCtx) bool
	// Operated reports whether ServeClient answers a request as the operators' API.
	Operated(ctx *fasthttp.RequestCtx) bool
	// Reserved reports whether a path on the clients' listener is answered also when clients have
	// used up their connections.
	Reserved(path []byte) bool
}

// Server owns the listeners of clients and operators.
type Server struct {
	cfg      ServerConfig
	requests *Handler
	admin    Admin
	watcher  *ingress.Watcher
	client   *ingress.Server
	operator *ingress.Server // nil when the clients' listener serves both
	// Of failed TLS handshakes: unix nanoseconds of the last log line, and those since then.
	refusalLogged, refusalsUnlogged atomic.Int64

	handed   chan struct{} // closed by HandOver
	handOver sync.Once
}

// NewServer returns a server of h and admin.
func NewServer(cfg ServerConfig, watcher *ingress.Watcher, h *Handler, admin Admin) *Server {
	cfg.MaxHead = cmp.Or(cfg.MaxHead, 16<<10)
	s := &Server{cfg: cfg, requests: h, admin: admin, watcher: watcher, handed: make(chan struct{})}
	clients, reserve := ingress.FileShares()
	s.client = s.listen(s.handleClient, cfg.TLS, ingress.Config{
		Limits: func() ingress.Limits { return h.live().Clients }, MaxClients: clients, Reserve: reserve, Reserved: admin.Reserved,
		Authorize: s.authorize, Refuse: s.refuseClient,
	})
	if cfg.Operator != nil {
		s.operator = s.listen(admin.ServeOperator, cfg.OperatorTLS, ingress.Config{
			Limits: func() ingress.Limits { return h.live().Clients.Operators() }, MaxClients: reserve, Reserve: reserve,
			Reserved: func([]byte) bool { return true }, Refuse: s.badRequest,
		})
	}
	if most := h.live().Clients.Clients; clients > 0 && most > clients {
		h.log.Warn("the limit of open files leaves room for fewer clients; raise ulimit -n", "clients", most, "room", clients)
	}
	return s
}

// authorize refuses a request without a client's key before its body is read.
func (s *Server) authorize(ctx *fasthttp.RequestCtx) error {
	if s.requests.Keys == nil || s.admin.Open(ctx) {
		return nil
	}
	_, err := s.requests.ClientKey(ctx)
	return err
}

// listen returns a server of h for one of the listeners.
func (s *Server) listen(h fasthttp.RequestHandler, encrypted *tls.Config, cfg ingress.Config) *ingress.Server {
	cfg.Handler, cfg.Closed = withName(h), s.requests.metrics.closed
	cfg.MaxBody, cfg.MaxHead = func() int { return s.requests.live().MaxBodyBytes }, s.cfg.MaxHead
	cfg.Slashes = []byte(pathModels) // names of models have slashes, which clients escape
	cfg.TLS, cfg.HandshakeFailed = encrypted, s.refused
	cfg.Watcher, cfg.Log = s.watcher, s.requests.log
	return ingress.NewServer(cfg)
}

// Connections returns the number of open connections of clients.
func (s *Server) Connections() int { return s.client.Connections() }

// HandOver has Run leave the listeners, which another process has too, and end with the last
// connection. Requests in flight have all the time they need, and connections without one
// DrainTimeout; the end of Run's ctx drains as ever.
func (s *Server) HandOver() { s.handOver.Do(func() { close(s.handed) }) }

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
		if s.cfg.Kept {
			s.leaveSoon()
		}
	case <-failed:
	case <-s.handed:
		s.leave(ctx)
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

// leave waits for the end of both servers' connections. /ready does not tell of it: the address is
// served on.
func (s *Server) leave(ctx context.Context) {
	idle := s.requests.live().DrainTimeout
	var left sync.WaitGroup
	defer left.Wait()
	left.Go(func() { s.client.Leave(ctx, idle) })
	if s.operator != nil {
		left.Go(func() { s.operator.Leave(ctx, idle) })
	}
}

// keptGrace is for clients that ask one question after the other: with the next answer they hear
// that the connection ends, and none is lost. A restart takes so much longer.
const keptGrace = time.Second

// leaveSoon is leave for keptGrace.
func (s *Server) leaveSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), keptGrace)
	defer cancel()
	s.leave(ctx)
}

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

// handleClient serves the clients' listener.
func (s *Server) handleClient(ctx *fasthttp.RequestCtx) {
	origins := s.requests.live().Origins
	if origins.None() || s.admin.Operated(ctx) {
		s.answerClient(ctx)
		return
	}
	switch {
	case !origin.IsPreflight(ctx):
		s.answerClient(ctx)
	case !origins.Preflight(ctx):
		s.requests.Fail(ctx, &openai.Error{
			Status: fasthttp.StatusForbidden, Type: "invalid_request_error", Code: "origin_not_allowed",
			Message: fmt.Sprintf("Pages of %.100q may not call this API: its operator allows origins with --cors-allowed-origins.", ctx.Request.Header.Peek(fasthttp.HeaderOrigin)),
		})
	}
	origins.Mark(ctx)
}

func (s *Server) answerClient(ctx *fasthttp.RequestCtx) {
	if !s.admin.ServeClient(ctx) {
		s.requests.Serve(ctx)
	}
}

// refuseClient answers a client's request that cannot be read, or has no key.
func (s *Server) refuseClient(ctx *fasthttp.RequestCtx, err error) {
	s.badRequest(ctx, err)
	if origins := s.requests.live().Origins; !origins.None() && !s.admin.Operated(ctx) {
		origins.Mark(ctx)
	}
}

// badRequest answers a request that cannot be read.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	withName(func(ctx *fasthttp.RequestCtx) { s.requests.Fail(ctx, s.unreadable(err)) })(ctx)
}

// unreadable returns the error of a request that cannot be read.
func (s *Server) unreadable(err error) *openai.Error {
	var e *openai.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, ingress.ErrBodyTooLarge):
		return openai.TooLarge(s.requests.live().MaxBodyBytes)
	case causeOf(err) == causeUnknown:
		return openai.BadRequest("", "The request is not valid HTTP: "+strings.TrimSpace(firstLine(err.Error())))
	}
	return ErrorFor(err, "")
}

// firstLine shortens an error: fasthttp's errors quote the whole buffer.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}

// refusalsEvery is the pause between two log lines about failed TLS handshakes: a scanner causes
// thousands an hour, a client without the right authority one for each request.
const refusalsEvery = 10 * time.Second

// refused counts a failed handshake, and logs it unless another was logged just before.
func (s *Server) refused(client net.Addr, err error) {
	s.requests.metrics.tlsRefused.Inc()
	now, last := time.Now().UnixNano(), s.refusalLogged.Load()
	if now-last < int64(refusalsEvery) || !s.refusalLogged.CompareAndSwap(last, now) {
		s.refusalsUnlogged.Add(1)
		return
	}
	s.requests.log.Warn("TLS handshake with client failed", "client", client.String(), "error", err,
		"not_logged_before", s.refusalsUnlogged.Swap(0))
}
