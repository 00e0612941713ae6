package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// Config holds the settings of a Server.
type Config struct {
	// Handler gets each request whose head is sound, with its body read: Request.Body returns
	// it.
	Handler fasthttp.RequestHandler
	// Authorize decides by its head whether a request's body is read; nil: all are.
	Authorize func(ctx *fasthttp.RequestCtx) error
	// Refuse answers a request that cannot be read. err wraps one of this package's sentinels,
	// or is Authorize's or fasthttp's own. The connection ends with the answer.
	Refuse func(ctx *fasthttp.RequestCtx, err error)
	// MaxBody returns the longest body of a request, in bytes.
	MaxBody func() int
	// MaxHead is the longest head of a request, in bytes.
	MaxHead int
	// Slashes is the path below which an escaped slash may be part of a name; nil: nowhere.
	Slashes []byte
	// Limits returns the limits for the next connection; nil: the defaults. They may change.
	Limits func() Limits
	// MaxClients is the number of connections for which there are files, 0 for any number.
	MaxClients int
	// Reserve is how many connections are accepted beyond the limit, for requests that Reserved
	// names: those that tell of the router's health, and its operators'.
	Reserve  int
	Reserved func(path []byte) bool
	// Closed, which may be nil, is told of connections that the Server closes.
	Closed func(Reason)
	// TLS of the clients; nil: plain HTTP.
	TLS *tls.Config
	// HandshakeFailed, which may be nil, is told of each failed TLS handshake, from the
	// connection's goroutine.
	HandshakeFailed func(client net.Addr, err error)
	// Watcher tells when clients leave.
	Watcher *Watcher
	Log     *slog.Logger
}

// Server accepts connections of clients and has fasthttp serve their requests. fasthttp has a
// connection while requests are under way; one that waits for longer than parkAfter waits
// without fasthttp and its buffers until the next request begins.
type Server struct {
	cfg  Config
	http *fasthttp.Server

	leaving  atomic.Bool   // each connection ends with its next answer
	draining atomic.Bool   // and those that wait for a request are closed
	left     chan struct{} // a connection has ended
	wholes   atomic.Int64  // bytes of answers that are being written as a whole

	mu        sync.Mutex
	listeners []net.Listener // guarded by mu
	clients   roster         // guarded by mu
}

// NewServer returns a Server; Serve makes it work.
func NewServer(cfg Config) *Server {
	if cfg.Limits == nil {
		cfg.Limits = func() Limits { return Limits{} }
	}
	if cfg.Authorize == nil {
		cfg.Authorize = func(*fasthttp.RequestCtx) error { return nil }
	}
	if cfg.Closed == nil {
		cfg.Closed = func(Reason) {}
	}
	s := &Server{cfg: cfg, left: make(chan struct{}, 1)}
	s.http = &fasthttp.Server{
		Handler:        s.handle,
		HeaderReceived: s.headerReceived,
		ExpectHandler:  s.expect,
		ErrorHandler:   s.badRequest,
		ConnState:      noteState,

		StreamRequestBody: true, // readBody makes room for a body as its bytes come
		ReadBufferSize:    cfg.MaxHead,
		WriteBufferSize:   4 << 10, // each stream has one
		ReduceMemoryUsage: true,    // a connection keeps no writer between two answers
		// fasthttp would take a form apart, and write its long parts to files, for nobody.
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		Logger:                       debugLog{cfg.Log},
	}
	return s
}

// debugLog sends fasthttp's log, which has a line for each broken connection, to the debug
// level.
type debugLog struct{ log *slog.Logger }

// Printf implements fasthttp.Logger.
func (l debugLog) Printf(format string, args ...any) {
	l.log.Debug("fasthttp", "message", fmt.Sprintf(format, args...))
}

// acceptPause lets a process that ran out of descriptors get some back.
const acceptPause = 50 * time.Millisecond

// Serve accepts connections until Shutdown, and then returns nil. It goes on when the process
// runs out of descriptors and when clients leave before they are accepted.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.listeners = append(s.listeners, ln)
	s.mu.Unlock()
	if s.leaving.Load() {
		return ln.Close()
	}
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			if cl := s.newClient(nc); cl != nil {
				go cl.serve()
			}
		case outOfFiles(err) && s.makeRoom():
		case passing(err):
			time.Sleep(acceptPause) //nolint:forbidigo // Nothing tells when a descriptor is free again.
		case s.leaving.Load():
			return nil
		default:
			return err
		}
	}
}

// makeRoom closes a connection that waits for a request; false: none does.
func (s *Server) makeRoom() bool {
	s.mu.Lock()
	cl := s.clients.claim()
	s.mu.Unlock()
	if cl == nil {
		return false
	}
	s.cfg.Closed(ReasonRoom)
	cl.closeClaimed()
	return true
}

// outOfFiles reports whether Accept found no descriptor.
func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// passing reports whether an error of Accept concerns one moment and not the listener.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// newClient returns a client's connection; nil: its address has too many. Where the Watcher
// cannot take it (the system limits watches), a write finds that the client has left.
func (s *Server) newClient(nc net.Conn) *Client {
	limits := s.cfg.Limits().withDefaults()
	cl := &Client{Conn: socket.New(nc), tcp: nc, s: s, limit: readLimit{grace: limits.Arrival, rate: limits.Rate, idle: limits.Idle}}
	cl.out = sender{
		nc: cl.Conn, stall: limits.Stall, wholes: &s.wholes,
		untaken: func() int { return untaken(nc) }, stalled: func() { cutStalled(cl) },
	}
	cl.writes.out = &cl.out
	cl.silent.Store(true)
	cl.place.waitsFrom(time.Now())
	if !s.admit(cl, &limits) {
		s.cfg.Closed(ReasonAddress)
		_ = nc.Close()
		return nil
	}
	cl.watch, _ = s.cfg.Watcher.register(nc, cl)
	if s.cfg.TLS != nil {
		encrypted := newSession(cl.Conn, &cl.out, s.cfg.TLS)
		cl.Conn, cl.writes.out = encrypted, encrypted
	}
	return cl
}

// admit gives a connection its place: at the limit that of one that waits for a request, and where
// none does, one of the reserve, whose oldest connection is cut for it. false: its address has too
// many.
func (s *Server) admit(cl *Client, limits *Limits) bool {
	most := s.most(limits)
	if limits.PerAddress > 0 {
		cl.place.addr = addressOf(cl.tcp)
	}
	s.mu.Lock()
	if limits.PerAddress > 0 && s.clients.byAddr[cl.place.addr] >= limits.PerAddress {
		s.mu.Unlock()
		return false
	}
	var waited, cut *Client
	if most > 0 && s.clients.counted() >= most {
		waited = s.clients.claim()
		cl.place.spare = waited == nil
	}
	if cl.place.spare && len(s.clients.spare) >= s.cfg.Reserve {
		cut = s.clients.spare[0]
		s.clients.close(cut)
	}
	s.clients.add(cl)
	s.mu.Unlock()
	if waited != nil {
		s.cfg.Closed(ReasonRoom)
		waited.closeClaimed()
	}
	if cut != nil {
		s.cfg.Closed(ReasonFull)
		cut.cut()
	}
	return true
}

// most is the number of connections that there may be, 0 for any number.
func (s *Server) most(limits *Limits) int {
	if limits.Clients == 0 || s.cfg.MaxClients > 0 && s.cfg.MaxClients < limits.Clients {
		return s.cfg.MaxClients
	}
	return limits.Clients
}

// promote gives a connection of the reserve a place where one is free by now, or can be had.
func (s *Server) promote(cl *Client) bool {
	limits := s.cfg.Limits()
	most := s.most(&limits)
	s.mu.Lock()
	var waited *Client
	if most > 0 && s.clients.counted() >= most {
		waited = s.clients.claim()
	}
	room := most == 0 || s.clients.counted() < most
	if room {
		room = s.clients.noSpare(cl) // else it is being cut
		cl.place.spare = !room
	}
	s.mu.Unlock()
	if waited != nil {
		s.cfg.Closed(ReasonRoom)
		waited.closeClaimed()
	}
	return room
}

// forget takes out a connection that has ended.
func (s *Server) forget(cl *Client) {
	s.mu.Lock()
	s.clients.remove(cl)
	s.mu.Unlock()
	select {
	case s.left <- struct{}{}:
	default:
	}
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients.all)
}

// silentGrace is for a first request that is on its way while the listener closes.
const silentGrace = 200 * time.Millisecond

// Leave closes the listeners, for another process that accepts from the same sockets, and waits for
// the connections to end. A client may be sending its next request while its connection is closed,
// and would take it for lost: each connection stays for one more answer, which tells the client to
// close it. Those that bring no request are closed after idle. Leave returns when no connection is
// left, or when ctx ends.
func (s *Server) Leave(ctx context.Context, idle time.Duration) {
	s.closeListeners()
	waiting := time.NewTimer(idle)
	defer waiting.Stop()
	for s.Connections() > 0 {
		select {
		case <-s.left:
		case <-waiting.C:
			s.draining.Store(true)
			s.endWaiting(true)
			waiting.Reset(silentGrace)
		case <-ctx.Done():
			return
		}
	}
}

// Shutdown closes the listeners and the connections that wait for a request, and waits for the
// answers under way, which end their connections. When ctx ends, it cuts the rest and returns
// ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeListeners()
	s.draining.Store(true)
	s.endWaiting(false)
	grace := time.NewTimer(silentGrace)
	defer grace.Stop()
	for s.Connections() > 0 {
		select {
		case <-s.left:
		case <-grace.C:
			s.endWaiting(true)
			grace.Reset(silentGrace)
		case <-ctx.Done():
			for _, cl := range s.open() {
				cl.cut()
			}
			return ctx.Err()
		}
	}
	return nil
}

// closeListeners has Serve return.
func (s *Server) closeListeners() {
	s.leaving.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ln := range s.listeners {
		_ = ln.Close()
	}
}

// open returns the open connections.
func (s *Server) open() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients.all)
}

// endWaiting closes the connections that wait for a request, with or without those that have
// not sent a byte yet. A request that has come and was not read yet is answered. Unread bytes may
// also be the end of a TLS handshake, after which nothing comes: callers ask again.
func (s *Server) endWaiting(silent bool) {
	for _, cl := range s.open() {
		if (silent || !cl.silent.Load()) && !unread(cl.tcp) && claim(cl) {
			cl.closeClaimed()
		}
	}
}
