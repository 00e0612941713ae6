package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
)

// Store keeps the KV pages of this node's engines in host memory, and gives them to any of them.
type Store struct {
	cfg      Config
	pages    *pages
	leases   *leases
	nixl     *transport
	security *handshaker
	peers    *peerClient
	engines  *engineServer
	serving  *peerServer
	prefetch *prefetcher
	listener net.Listener // of peers; nil where Config.Listen is ""
}

// New makes a store and its memory. Run serves it; Close frees the memory.
func New(cfg Config) (*Store, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	a, err := newArena(cfg.Bytes)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	if cfg.Listen != "" {
		if s.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			a.close()
			return nil, fmt.Errorf("cannot listen for peers of the KV tier: %w", err)
		}
		if err := checkExposed(&cfg, s.listener); err != nil {
			s.listener.Close()
			a.close()
			return nil, err
		}
	}
	s.compose(a)
	return s, nil
}

// compose makes the parts of the store.
func (s *Store) compose(a *arena) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	// Engines and peers that see another instance talk to other memory.
	instance := binary.LittleEndian.Uint64(random[:])
	cfg := &s.cfg
	s.pages = newPages(a, cfg.Now)
	s.leases = newLeases(s.pages, cfg.Now)
	s.nixl = &transport{
		fabric: cfg.Fabric, node: cfg.Node, log: s.cfg.Log, arena: a,
		own: welcome{instance: instance, locality: ownLocality(), rdma: hasRDMA()},
	}
	counts := s.pages.counts
	s.security = &handshaker{tls: cfg.PeerTLS, log: s.cfg.Log, now: cfg.Now, counts: counts}
	s.peers = &peerClient{
		cfg: cfg, pages: s.pages, nixl: s.nixl, security: s.security, instance: instance, counts: counts,
		all: map[string]*peer{}, ended: make(chan struct{}),
	}
	s.engines = &engineServer{
		cfg: cfg, pages: s.pages, leases: s.leases, peers: s.peers, clear: s.Clear, stats: s.Stats, instance: instance, counts: counts,
	}
	s.serving = &peerServer{
		log: s.cfg.Log, pages: s.pages, leases: s.leases, nixl: s.nixl, security: s.security, counts: counts,
	}
	s.prefetch = &prefetcher{
		cfg: cfg, pages: s.pages, peers: s.peers, seed: maphash.MakeSeed(), slots: make(chan struct{}, maxHints), counts: counts,
	}
}

// Endpoint returns the address for other nodes' stores, or "" where there is none.
func (s *Store) Endpoint() string {
	if s.listener == nil {
		return ""
	}
	addr, ok := s.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() && s.cfg.Advertise != "" {
		return net.JoinHostPort(s.cfg.Advertise, strconv.Itoa(addr.Port))
	}
	return s.listener.Addr().String()
}

// Close waits for all readers and writers of the memory, and frees it. It may be called twice.
func (s *Store) Close() error {
	if s.listener != nil {
		s.listener.Close()
	}
	s.pages.close()
	return nil
}

// Run serves engines and peers until ctx ends, and returns when all its goroutines have ended.
// Call it once, and Close after it.
func (s *Store) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var all, opening sync.WaitGroup
	defer func() {
		stop()
		opening.Wait()
		s.prefetch.end()
		err := s.nixl.close() // settles transfers for which peers' goroutines may wait
		close(s.peers.ended)
		all.Wait()
		if err != nil {
			s.cfg.Log.Warn("cannot end the KV tier's NIXL agents", "error", err)
		}
	}()
	all.Go(func() { s.leases.run(ctx) })
	all.Go(func() { s.peers.run(ctx) })
	opening.Go(func() { s.nixl.open(ctx) })
	failed := make(chan error, 2)
	serve := func(run func() error) {
		all.Go(func() {
			if err := run(); err != nil {
				failed <- err
				stop()
			}
		})
	}
	if s.listener != nil {
		serve(func() error { return s.serving.run(ctx, s.listener) })
	}
	if s.cfg.Socket != "" {
		serve(func() error { return s.engines.run(ctx) })
	}
	<-ctx.Done()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// SetPeers replaces the stores of other nodes. It may be called before Run, and does not block.
func (s *Store) SetPeers(peers []Peer) { s.peers.set(peers) }

// TakeHint takes a pull hint of a router: see package hint. It owns data, and does not wait.
func (s *Store) TakeHint(data []byte) { s.prefetch.takeHint(data) }

// ChangeFeed returns the changes of the pages.
func (s *Store) ChangeFeed() ChangeFeed { return ChangeFeed{s.pages} }

// Agents returns the statistics of the NIXL agents: of the agent from which peers read, which is
// passive, and of the one that reads. It is empty without NIXL.
func (s *Store) Agents() map[string]nixl.Stats { return s.nixl.agents() }

// Record returns the store's part of the node's record in the cluster.
func (s *Store) Record() *cluster.Tier {
	stats := s.Stats()
	r := &cluster.Tier{Bytes: stats.Bytes, Used: stats.Used, Pages: stats.Pages, Endpoint: s.Endpoint(), Speed: stats.ReadSpeed}
	if a := s.nixl.server(); a != nil {
		r.Agent = a.Name()
	}
	return r
}

// Clear drops all pages of the model of a namespace, and has peers drop them, for wait at most. It
// returns the number of pages dropped here, of peers that have done it and of peers out of reach,
// which learn of it when they connect.
func (s *Store) Clear(name string, wait time.Duration) (pages, told, missing int) {
	pages, cleared := s.pages.clear(name)
	if cleared == nil {
		return 0, 0, 0
	}
	s.cfg.Log.Info("an engine cleared the KV tier of its model", "pages", pages)
	told, missing = s.peers.broadcast(cleared, wait)
	return pages, told, missing
}

// Handle answers POST /prefetch with a [Hint], and GET /tier with [Stats], both as JSON. It reports
// whether the request was one of them.
func (s *Store) Handle(ctx *fasthttp.RequestCtx) bool {
	switch string(ctx.Path()) {
	case "/prefetch":
		s.prefetch.handle(ctx)
	case "/tier":
		answerJSON(ctx, s.Stats())
	default:
		return false
	}
	return true
}
