package upstream

import (
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
)

// ServerConfig holds the settings of a Server; Handler and Refuse are required.
type ServerConfig struct {
	// Handler gets each request whose head is sound, with its body read: Request.Body returns it.
	Handler fasthttp.RequestHandler
	// Refuse answers a request that cannot be read. err wraps ErrRequest, ErrBodyTooLarge,
	// ErrHeadTooLarge, ErrExpectation, ErrSlowRequest or fasthttp's own error. The connection ends with the
	// answer.
	Refuse func(ctx *fasthttp.RequestCtx, err error)
	// MaxBody returns the longest body of a request, in bytes.
	MaxBody func() int
	// MaxHead is the longest head of a request, in bytes.
	MaxHead int
	// MaxClients bounds open connections; further clients wait to be accepted. 0: any number.
	MaxClients int
	// Full, which may be nil, is called whenever a client has to wait.
	Full func()
	// Idle is the longest wait for the next request on a connection.
	Idle time.Duration
	// TLS of the clients; nil: plain HTTP.
	TLS *tls.Config
	// HandshakeFailed, which may be nil, is told of each TLS handshake that failed.
	HandshakeFailed func(client net.Addr, err error)
	// Watcher tells when clients leave.
	Watcher *Watcher
	Log     *slog.Logger
}

// Server accepts the connections of clients and has fasthttp serve their requests. fasthttp sees a
// connection while requests are under way: one that waits for longer than parkAfter is taken
// back, without buffers, until the next request begins.
type Server struct {
	cfg  ServerConfig
	http *fasthttp.Server

	draining atomic.Bool
	left     chan struct{} // a connection has ended
	closed   chan struct{} // Shutdown was called

	mu        sync.Mutex
	listeners []net.Listener       // guarded by mu
	clients   map[*Client]struct{} // guarded by mu
}

// NewServer returns a Server; Serve makes it work.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, left: make(chan struct{}, 1), closed: make(chan struct{}), clients: make(map[*Client]struct{})}
	s.http = &fasthttp.Server{
		Handler:        s.handle,
		HeaderReceived: s.headerReceived,
		ExpectHandler:  s.expect,
		ErrorHandler:   s.badRequest,
		ConnState:      clientState,

		// The handler is called with the head; readBody makes room for a body as its bytes come.
		StreamRequestBody: true,
		ReadBufferSize:    cfg.MaxHead,
		WriteBufferSize:   4 << 10, // each stream has one; longer whole answers leave in one write by Stream
		ReduceMemoryUsage: true,    // no writer is kept from answer to answer, and each answer is flushed
		// A form would be taken apart, and its long parts written to files, for nobody.
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		Logger:                       debugLog{cfg.Log},
	}
	return s
}

// debugLog sends fasthttp's log, which has a line for each broken connection, to the debug level.
type debugLog struct{ log *slog.Logger }

// Printf implements fasthttp.Logger.
func (l debugLog) Printf(format string, args ...any) {
	l.log.Debug("fasthttp", "message", fmt.Sprintf(format, args...))
}

// acceptPause is for the process to get descriptors back when it ran out of them.
const acceptPause = 50 * time.Millisecond

// Serve accepts connections until Shutdown, and then returns nil. It outlives running out of
// descriptors and clients that are gone before they are accepted.
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

// awaitRoom waits until there are fewer connections than there may be; false: the server drains.
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

// passing reports whether an error of Accept is about a moment and not about the listener.
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

// newClient returns the connection of a client that was accepted. One that cannot be watched (the
// system's limit on watches) is noticed to have left when it is written to.
func (s *Server) newClient(nc net.Conn) *Client {
	cl := &Client{Conn: newSocket(nc), tcp: nc, s: s}
	cl.reg, _ = s.cfg.Watcher.register(nc, cl)
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
// answers under way, which end their connections. When ctx ends, the rest is cut.
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

// endWaiting closes the connections that wait for a request; silent tells whether those that have
// not sent a byte yet are among them.
func (s *Server) endWaiting(silent bool) {
	for _, cl := range s.open() {
		if silent || !cl.silent.Load() {
			cl.endWait()
		}
	}
}
