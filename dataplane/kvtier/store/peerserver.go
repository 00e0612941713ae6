package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	counts   *tally
}

// run serves a listener until ctx ends and all connections have ended.
func (s *peerServer) run(ctx context.Context, l net.Listener) error {
	err := serveConnections(ctx, l, maxPeerConnections, func(c net.Conn) { s.serve(ctx, c) })
	if err != nil {
		return fmt.Errorf("cannot accept peers of the KV tier: %w", err)
	}
	return nil
}

// serve owns a connection, and the pins of its peer.
func (s *peerServer) serve(ctx context.Context, c net.Conn) {
	const refusal = "the KV tier refuses a peer"
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
		case errors.Is(err, ErrUntrusted):
			s.security.refused(refusal, hostOf(c), err)
		case err != nil:
			s.counts.add(func(c *Stats) { c.Refused++ })
			s.log.Warn("a peer's connection to the KV tier failed", "peer", c.RemoteAddr(), "error", err)
		}
	}
}
