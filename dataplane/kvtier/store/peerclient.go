package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/nixl"
)

// Peer is the store of another node.
type Peer struct {
	Name     string // of the node
	Endpoint string // host:port
}

const (
	// defaultAskTimeout bounds an engine's question to peers. A peer on a quiet network answers
	// in well under a millisecond.
	defaultAskTimeout = 100 * time.Millisecond
	// dialTimeout bounds a connection attempt, for which no engine waits.
	dialTimeout = 2 * time.Second
	// defaultPullTimeout bounds one pull. The peer keeps its pages for us twice as long.
	defaultPullTimeout = 5 * time.Second
	// maxAsked bounds the pages of one question to a peer, and so of one pull.
	maxAsked = 16384
	// pullPages and pullBytes bound a batch: an engine that waits for the first pages of a prompt
	// does not wait for its last.
	pullPages = 128
	pullBytes = 32 << 20
)

const (
	// DefaultPrefillRate is the least number of prompt tokens that an engine computes in a
	// second: a large model on one older GPU. It rules out links as slow as 1 Gb/s for KV pages;
	// a setting of the engines' true speed rules out more.
	DefaultPrefillRate = 2000
	// slowRetry is the interval at which a link that is too slow is tried again.
	slowRetry = 30 * time.Second
)

// peerClient asks the stores of other nodes for pages and pulls them.
type peerClient struct {
	cfg      *Config
	pages    *pages
	nixl     *transport
	security *handshaker
	instance uint64
	incoming incoming
	counts   *tally
	ended    chan struct{} // closed when the store ends

	mu   sync.Mutex
	all  map[string]*peer // by endpoint; guarded by mu
	done bool             // guarded by mu
	ctx  context.Context  // of run; guarded by mu
	wg   sync.WaitGroup
}

// set replaces the peers. Before run, they are connected by run.
func (c *peerClient) set(peers []Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.done {
		c.all = map[string]*peer{}
		for _, p := range peers {
			c.all[p.Endpoint] = &peer{client: c, Peer: p}
		}
		return
	}
	wanted := map[string]bool{}
	for _, p := range peers {
		wanted[p.Endpoint] = true
		if c.all[p.Endpoint] == nil {
			c.all[p.Endpoint] = c.startLocked(p)
		}
	}
	for endpoint, p := range c.all {
		if !wanted[endpoint] {
			p.stop()
			delete(c.all, endpoint)
		}
	}
}

// startLocked starts the goroutine of a peer, which ends with its context.
func (c *peerClient) startLocked(p Peer) *peer {
	ctx, stop := context.WithCancel(c.ctx)
	n := &peer{client: c, Peer: p, stop: stop, pulls: make(chan *pull, maxPulls), wake: make(chan struct{}, 1), gone: make(chan struct{}), asking: make(chan struct{}, 1)}
	c.wg.Go(func() {
		defer stop()
		n.run(ctx)
	})
	return n
}

// run connects to the peers until ctx ends.
func (c *peerClient) run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for endpoint, p := range c.all {
		c.all[endpoint] = c.startLocked(p.Peer)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.wg.Wait()
}

// context returns the context of run, or nil before it.
func (c *peerClient) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx
}

// connected returns the peers that can be asked now.
func (c *peerClient) connected() []*peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var up []*peer
	for _, p := range c.all {
		if p.up.Load() {
			up = append(up, p)
		}
	}
	return up
}

// find asks all peers for pages that are absent here and pulls from the peer with the most of
// them. It returns the number of leading pages that will come. hinted: a router expects the
// engine to ask.
func (c *peerClient) find(ns uint32, hashes []proto.Hash, parent *proto.Hash, wait time.Duration, hinted bool) int {
	peers := c.connected()
	if !hinted {
		peers = c.fastEnough(peers, ns)
	}
	best, n := c.most(peers, ns, hashes, wait)
	if n == 0 {
		return 0
	}
	return c.pull(best, ns, hashes[:n], parent, hinted)
}

// most asks peers for pages. It returns the peer with the most leading ones, and their number.
func (c *peerClient) most(peers []*peer, ns uint32, hashes []proto.Hash, wait time.Duration) (best *peer, n int) {
	r, ok := c.pages.request(ns)
	if len(peers) == 0 || len(hashes) == 0 || !ok {
		return nil, 0
	}
	ctx, cancel := context.WithTimeout(c.context(), min(wait, c.cfg.AskTimeout))
	defer cancel()
	r.hashes = hashes[:min(len(hashes), maxAsked)]
	counts := make([]int, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() { counts[i] = p.has(ctx, &r) })
	}
	all.Wait()
	n = slices.Max(counts)
	c.counts.add(func(s *Stats) {
		s.RemoteAsked += int64(len(r.hashes))
		s.RemoteFound += int64(n)
	})
	return peers[slices.Index(counts, n)], n
}

// findAt is find for a hint: it asks the named peer first and, where that has all pages, no other.
func (c *peerClient) findAt(name string, ns uint32, hashes []proto.Hash, parent *proto.Hash) int {
	peers := c.connected()
	i := slices.IndexFunc(peers, func(p *peer) bool { return name != "" && p.Name == name })
	if i >= 0 {
		if p, n := c.most(peers[i:i+1], ns, hashes, c.cfg.AskTimeout); n == min(len(hashes), maxAsked) {
			return c.pull(p, ns, hashes[:n], parent, true)
		}
	}
	return c.find(ns, hashes, parent, c.cfg.AskTimeout, true)
}

// fastEnough returns the peers from which pages come faster than the engine computes them, by the
// rate of former pulls; peers of unknown rate are included. Routers have done this calculation for
// hints.
func (c *peerClient) fastEnough(peers []*peer, ns uint32) []*peer {
	least := c.leastRate(ns)
	now := c.cfg.Now().UnixNano()
	return slices.DeleteFunc(peers, func(p *peer) bool {
		speed := p.rate.get()
		if speed == 0 || speed >= least {
			return false
		}
		last := p.tried.Load()
		if now-last >= int64(slowRetry) && p.tried.CompareAndSwap(last, now) {
			return false
		}
		c.counts.add(func(s *Stats) { s.TooSlow++ })
		return true
	})
}

// leastRate returns the bytes a second below which computing is faster than a pull; 0 is none. All
// ranks of the engine on this node pull their part of each token over the same link.
func (c *peerClient) leastRate(ns uint32) float64 {
	if c.cfg.PrefillRate <= 0 {
		return 0
	}
	return c.pages.bytesPerToken(ns) * c.cfg.PrefillRate
}

// pull queues pages for the goroutine of a peer, in batches. It returns the number of leading pages
// that will come.
func (c *peerClient) pull(p *peer, ns uint32, hashes []proto.Hash, parent *proto.Hash, hinted bool) int {
	space, ok := c.pages.request(ns)
	if !ok {
		return 0
	}
	step := max(1, min(pullPages, pullBytes/int(space.bytes)))
	hashes = append([]proto.Hash(nil), hashes...) // the caller reuses them
	if parent != nil {
		own := *parent
		parent = &own
	}
	for at := 0; at < len(hashes); at += step {
		q := newPull(ns, hashes[at:min(at+step, len(hashes))], parent, hinted)
		parent = &q.hashes[len(q.hashes)-1]
		c.incoming.add(q)
		select {
		case p.pulls <- q:
		default: // the peer is slow
			c.incoming.end(q)
			return at
		}
		select {
		case <-p.gone:
			p.drain()
			return at
		default:
		}
	}
	return len(hashes)
}

// quarantine keeps the slots of an abandoned transfer until NIXL cannot write to them any more.
func (c *peerClient) quarantine(slots *batch, busy *nixl.Transfer) {
	pages := int64(len(slots.entries))
	c.counts.add(func(s *Stats) { s.Quarantined += pages })
	c.wg.Go(func() {
		select {
		case <-busy.Settled():
			slots.abandon()
		case <-c.ended: // the memory lasts as long as NIXL needs it
		}
		c.counts.add(func(s *Stats) { s.Quarantined -= pages })
	})
}

// broadcast tells all peers of a clear, for wait at most. It returns the number of peers that have
// done it and of those out of reach.
func (c *peerClient) broadcast(cleared clears, wait time.Duration) (told, missing int) {
	c.mu.Lock()
	ctx, all := c.ctx, len(c.all)
	c.mu.Unlock()
	if ctx == nil {
		return 0, all
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	var done atomic.Int64
	for _, p := range c.connected() {
		wg.Go(func() {
			if p.tell(ctx, cleared) {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	told = int(done.Load())
	return told, max(0, all-told)
}
