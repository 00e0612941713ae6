package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
)

// maxPeerConnections bounds the connections of other sidecars, which have two each.
const maxPeerConnections = 1024

// peerServer gives pages to other sidecars. It never writes to the arena for them.
type peerServer struct {
	log      *slog.Logger
	pages    *pages
	leases   *leases
	nixl     *transport
	security *handshaker
	served   atomic.Int64 // pages
	refused  atomic.Int64 // connections that broke the protocol

	all  sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]struct{} // guarded by mu
	stop bool                  // guarded by mu
}

// run serves a listener until ctx ends and all connections have ended.
func (s *peerServer) run(ctx context.Context, l net.Listener) error {
	defer s.all.Wait()
	defer s.closeAll()
	quit := context.AfterFunc(ctx, func() { l.Close() })
	defer quit()
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("cannot accept peers of the KV tier: %w", err)
		}
		s.mu.Lock()
		full := s.stop || len(s.open) >= maxPeerConnections
		if !full {
			s.open[c] = struct{}{}
			s.all.Add(1)
		}
		s.mu.Unlock()
		if full {
			c.Close()
			continue
		}
		go s.serve(ctx, c)
	}
}

func (s *peerServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	for c := range s.open {
		c.Close()
	}
}

// serve owns a connection, and the pins of its peer.
func (s *peerServer) serve(ctx context.Context, c net.Conn) {
	const refusal = "the KV tier refuses a peer"
	defer s.all.Done()
	defer s.forget(c)
	secured, err := s.security.accept(ctx, c)
	if err != nil {
		s.security.refused(refusal, hostOf(c), err)
		return
	}
	n := &peerSession{server: s, conn: secured, pins: map[uint64]*lease{}}
	if s.pages.enter() == nil {
		err := n.run()
		for _, l := range n.pins {
			s.leases.release(l)
		}
		s.pages.leave()
		switch {
		case errors.Is(err, ErrTrust):
			s.security.refused(refusal, hostOf(c), err)
		case err != nil:
			s.refused.Add(1)
			s.log.Warn("a peer's connection to the KV tier failed", "peer", c.RemoteAddr(), "error", err)
		}
	}
}

func (s *peerServer) forget(c net.Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}
