package ingress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	// Refuse answers a request that cannot be read. err wraps one of this package's sentinels
	// or is fasthttp's own. The connection ends with the answer.
	Refuse func(ctx *fasthttp.RequestCtx, err error)
	// MaxBody returns the longest body of a request, in bytes.
	MaxBody func() int
	// MaxHead is the longest head of a request, in bytes.
	MaxHead int
	// MaxClients bounds open connections; further clients wait to be accepted. 0: any number.
	MaxClients int
	// Full, which may be nil, is called when a client has to wait.
	Full func()
	// Idle is the longest wait for the next request on a connection; default 5 min.
	Idle time.Duration
	// Grace is the time for a request that sends next to nothing; default 30 s.
	Grace time.Duration
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

	draining atomic.Bool
	left     chan struct{} // a connection has ended
	closed   chan struct{} // Shutdown was called

	mu        sync.Mutex
	listeners []net.Listener       // guarded by mu
	clients   map[*Client]struct{} // guarded by mu
}

// NewServer returns a Server; Serve makes it work.
func NewServer(cfg Config) *Server {
	cfg.Grace, cfg.Idle = cmp.Or(cfg.Grace, defaultGrace), cmp.Or(cfg.Idle, defaultIdle)
	s := &Server{cfg: cfg, left: make(chan struct{}, 1), closed: make(chan struct{}), clients: make(map[*Client]struct{})}
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
	if s.draining.Load() {
		return ln.Close()
	}
	for s.awaitRoom() {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			cl := s.newClient(nc)
			go cl.serve()
		case passing(err):
			time.Sleep(acceptPause) //nolint:forbidigo // Nothing tells when a descriptor is free again.
		case s.draining.Load():
			return nil
		default:
			return err
		}
	}
	return nil
}

// awaitRoom waits until there are fewer connections than there may be; false: the server
// drains.
func (s *Server) awaitRoom() bool {
	for told := false; s.cfg.MaxClients > 0 && s.Connections() >= s.cfg.MaxClients; told = true {
		if !told && s.cfg.Full != nil {
			s.cfg.Full()
		}
		select {
		case <-s.left:
		case <-s.closed:
			return false
		}
	}
	return true
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

// newClient returns a client's connection. Where the Watcher cannot take it (the system limits
// watches), a write finds that the client has left.
func (s *Server) newClient(nc net.Conn) *Client {
	cl := &Client{Conn: socket.New(nc), tcp: nc, s: s, limit: readLimit{grace: s.cfg.Grace}}
	cl.watch, _ = s.cfg.Watcher.register(nc, cl)
	if s.cfg.TLS != nil {
		cl.Conn = newSession(cl.Conn, s.cfg.TLS)
	}
	cl.silent.Store(true)
	s.mu.Lock()
	s.clients[cl] = struct{}{}
	s.mu.Unlock()
	return cl
}

// forget takes out a connection that has ended.
func (s *Server) forget(cl *Client) {
	s.mu.Lock()
	delete(s.clients, cl)
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
	return len(s.clients)
}

// silentGrace is for a first request that is on its way while the listener closes.
const silentGrace = 200 * time.Millisecond

// Shutdown closes the listeners and the connections that wait for a request, and waits for the
// answers under way, which end their connections. When ctx ends, it cuts the rest and returns
// ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.draining.Swap(true) {
		return nil
	}
	close(s.closed)
	s.mu.Lock()
	for _, ln := range s.listeners {
		_ = ln.Close()
	}
	s.mu.Unlock()
	s.endWaiting(false)
	grace := time.NewTimer(silentGrace)
	defer grace.Stop()
	for s.Connections() > 0 {
		select {
		case <-s.left:
		case <-grace.C:
			s.endWaiting(true)
		case <-ctx.Done():
			for _, cl := range s.open() {
				cl.cut()
			}
			return ctx.Err()
		}
	}
	return nil
}

// open returns the open connections.
func (s *Server) open() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.clients))
}

// endWaiting closes the connections that wait for a request, with or without those that have
// not sent a byte yet.
func (s *Server) endWaiting(silent bool) {
	for _, cl := range s.open() {
		if silent || !cl.silent.Load() {
			cl.endWait()
		}
	}
}
