package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/nixl"
)

// Peer is another node's tier.
type Peer struct {
	Name     string // of the node
	Endpoint string // host:port
}

const (
	// askLimit is the longest by default that a peer is waited for when an engine asks what is here. A live one on a quiet network
	// answers in well under a millisecond.
	askLimit = 100 * time.Millisecond
	// dialLimit is the longest for a connection to be made, which is never waited for.
	dialLimit = 2 * time.Second
	// pullLimit bounds one pull. Its pages are kept for us for twice as long.
	pullLimit = 5 * time.Second
	// firstRest and longestRest are how long a peer that failed is left alone.
	firstRest, longestRest = 200 * time.Millisecond, 5 * time.Second
	maxPulls               = 256 // that wait for one peer
)

// peer is a tier that this one asks and pulls from. Its goroutine, run, makes the connections and does the pulls.
type peer struct {
	tier *Tier
	Peer
	stop  context.CancelFunc
	pulls chan *pull
	wake  chan struct{} // capacity 1: the connection for questions is gone
	gone  chan struct{} // closed when run has ended

	asking chan struct{} // capacity 1: who has sent to it owns ask, for one question
	ask    *link
	up     atomic.Bool // ask is there
	rate   speed       // of pulls
	tried  atomic.Int64

	// What follows belongs to run.
	pullLink *link
	remote   *nixl.Remote
	loaded   uint64 // instance whose metadata remote is
}

// peerSet are the peers of a tier.
type peerSet struct {
	mu   sync.Mutex
	all  map[string]*peer // by endpoint; guarded by mu
	done bool             // guarded by mu
	wg   sync.WaitGroup
	ctx  context.Context // of Run
}

// SetPeers says which tiers there are besides. Those that are not named any more are forgotten. It may be called before Run, and takes
// effect then. It does not block.
func (t *Tier) SetPeers(peers []Peer) {
	s := &t.peers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.done {
		s.all = map[string]*peer{}
		for _, p := range peers {
			s.all[p.Endpoint] = &peer{tier: t, Peer: p}
		}
		return
	}
	wanted := map[string]bool{}
	for _, p := range peers {
		wanted[p.Endpoint] = true
		if s.all[p.Endpoint] == nil {
			s.all[p.Endpoint] = t.startPeer(p)
		}
	}
	for endpoint, p := range s.all {
		if !wanted[endpoint] {
			p.stop()
			delete(s.all, endpoint)
		}
	}
}

// startPeer starts a peer's goroutine, which ends with its context. s.mu is held.
func (t *Tier) startPeer(p Peer) *peer {
	ctx, stop := context.WithCancel(t.peers.ctx)
	n := &peer{tier: t, Peer: p, stop: stop, pulls: make(chan *pull, maxPulls), wake: make(chan struct{}, 1), gone: make(chan struct{}), asking: make(chan struct{}, 1)}
	t.peers.wg.Go(func() {
		defer stop()
		n.run(ctx)
	})
	return n
}

// runPeers starts what SetPeers was told before, and ends all peers with ctx.
func (t *Tier) runPeers(ctx context.Context) {
	s := &t.peers
	s.mu.Lock()
	s.ctx = ctx
	for endpoint, p := range s.all {
		s.all[endpoint] = t.startPeer(p.Peer)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.wg.Wait()
}

// live returns the peers that can be asked now.
func (t *Tier) live() []*peer {
	s := &t.peers
	s.mu.Lock()
	defer s.mu.Unlock()
	var up []*peer
	for _, p := range s.all {
		if p.up.Load() {
			up = append(up, p)
		}
	}
	return up
}

// run keeps the connection for questions, and pulls.
func (p *peer) run(ctx context.Context) {
	defer p.drain()
	defer close(p.gone) // whoever queues a pull after this drains it himself
	defer p.close()
	rest := firstRest
	retry := time.NewTimer(0)
	defer retry.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-p.pulls:
			p.pull(ctx, q)
		case <-look.C:
			p.check()
		case <-p.wake:
			retry.Reset(rest)
		case <-retry.C:
			if p.up.Load() {
				continue
			}
			if err := p.connect(ctx); err != nil {
				p.tier.complain("a peer's KV tier is out of reach", p.Name, err)
				retry.Reset(rest)
				rest = min(rest*2, longestRest)
				continue
			}
			rest = firstRest
		}
	}
}

// connect makes the connection for questions.
func (p *peer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	l, err := p.tier.dialPeer(ctx, p.Endpoint)
	if err != nil {
		return err
	}
	if l.welcome.instance == p.tier.instance {
		l.close()
		return fmt.Errorf("%w: the peer %s is this tier itself", ErrConfig, p.Endpoint)
	}
	p.asking <- struct{}{}
	p.ask = l
	<-p.asking
	p.up.Store(true)
	return nil
}

// has asks how many of the pages the peer has from the first on. Ranks of one engine ask at the same moment, and take turns.
func (p *peer) has(ctx context.Context, r *pageRequest) int {
	select {
	case p.asking <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	defer func() { <-p.asking }()
	if p.ask == nil {
		return 0
	}
	body, _, err := p.ask.call(ctx, opHas, r.encode())
	n := 0
	if err == nil {
		n, err = parseCount(body, len(r.hashes))
	}
	if err != nil {
		p.dropAsk()
		return 0
	}
	return n
}

// dropAsk ends the connection for questions; run makes another. The caller owns ask.
func (p *peer) dropAsk() {
	if p.ask == nil {
		return
	}
	p.ask.close()
	p.ask = nil
	p.up.Store(false)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// check drops a connection that the peer has ended while nobody asked, so that the first question after its restart is not lost.
func (p *peer) check() {
	select {
	case p.asking <- struct{}{}:
		if p.ask != nil && p.ask.ended() {
			p.dropAsk()
		}
		<-p.asking
	default: // who asks sees it
	}
}

// close ends the connections.
func (p *peer) close() {
	p.up.Store(false)
	p.asking <- struct{}{}
	p.dropAsk()
	<-p.asking
	p.dropPull(nil)
}

// dropPull ends the connection for pulls. Where NIXL said why, what it knows of the peer is forgotten too.
func (p *peer) dropPull(reason error) {
	if p.pullLink != nil {
		p.pullLink.close()
		p.pullLink = nil
	}
	if p.remote != nil && (reason == nil || errors.Is(reason, nixl.ErrPeer) || errors.Is(reason, nixl.ErrTimeout)) {
		p.remote.Close()
		p.remote = nil
	}
}

// elsewhere asks all peers for pages that are not here and has the ones of the best pulled; hinted: since a router said that they will be asked for. It returns how many will come.
func (t *Tier) elsewhere(ns uint32, hashes []proto.Hash, parent *proto.Hash, wait time.Duration, hinted bool) int {
	peers := t.live()
	if !hinted {
		peers = t.worthwhile(peers, ns)
	}
	if len(peers) == 0 || len(hashes) == 0 {
		return 0
	}
	t.peers.mu.Lock()
	ctx := t.peers.ctx // there is one, since there are live peers
	t.peers.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, min(wait, t.cfg.Ask))
	defer cancel()
	r, ok := t.spaceOf(ns)
	if !ok {
		return 0
	}
	r.hashes = hashes[:min(len(hashes), maxAsked)]
	counts := make([]int, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() { counts[i] = p.has(ctx, &r) })
	}
	all.Wait()
	best := 0
	for i := range counts {
		if counts[i] > counts[best] {
			best = i
		}
	}
	t.counts.asked.Add(int64(len(r.hashes)))
	t.counts.elsewhere.Add(int64(counts[best]))
	return t.startPull(peers[best], ns, hashes[:counts[best]], parent, hinted)
}

// maxAsked bounds the pages of one question to a peer, and so of one pull.
const maxAsked = 16384
