package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/nixl"
)

// Config says what a tier is. Bytes is needed; the zero values of all others are sane.
type Config struct {
	Bytes  int64  // of host memory for pages, at least 4 MiB; rounded up to whole slabs
	Socket string // Unix socket for this node's engines; "" serves none
	Group  string // whose members may use the socket, by name or number; "": the user of this process alone
	Listen string // host:port where other nodes' tiers ask for pages; "" gives them none
	Node   string // name of this node, for its NIXL agents
	// Advertise is the host under which others reach Listen, where that is all addresses.
	Advertise string
	Fabric    nixl.Fabric   // nil: pages come from other nodes by TCP
	Warm      int64         // bytes a second at which a cold tier takes other nodes' most used pages; 0 is not at all
	Ask       time.Duration // the longest that an engine's question waits for peers; 0 is 100 ms
	Prefill   float64       // tokens a second that an engine here computes: pages that would come slower are not pulled when it asks. 0: all are
	Log       *slog.Logger  // nil: slog's default
	Now       func() time.Time
	Policy    string // of eviction: "adaptive" (the default) or "lru"
	Trust     Trust  // how other nodes' tiers know this one, and it them
	Insecure  bool   // Listen may be an address that other machines reach, without Trust

	pull time.Duration // bounds one pull; 0 is pullLimit, and tests on busy machines have more
}

// ErrConfig is a setting that cannot be.
var ErrConfig = errors.New("tier: bad setting")

// ErrClosed is what a tier that ended answers.
var ErrClosed = errors.New("tier: closed")

const minBytes = slabsWanted * minSlab

// Tier keeps KV pages of this node's engines in host memory, and gives them to any of them.
type Tier struct {
	cfg      Config
	log      *slog.Logger
	arena    *arena
	place    uint64
	rdma     bool
	instance uint64 // random: who sees another one talks to another memory

	mu     sync.Mutex // guards what follows, and is held for look-ups only: never while a page is copied, or for I/O
	index  *index
	leases map[*lease]struct{}
	pulls  map[key]*pull // pages that are on their way from a peer
	closed bool
	inUse  sync.WaitGroup // readers and writers of the arena

	nixl       transport
	complaints complaints
	peers      peerSet
	hints      *hints
	listener   net.Listener  // of peers; nil where there is none
	cold       chan uint32   // namespaces that are new here
	changed    chan struct{} // capacity 1: there is something new for who follows
	ended      chan struct{} // closed when Run ends

	counts counts
	reads  speed // of engines: from where pages lie in the tier to where they lie in an engine's own host memory
}

// counts are kept without the lock.
type counts struct {
	exists, existsPages, existsHits   atomic.Int64 // questions; pages asked for; pages that were here
	getPages, getHits, getBytes       atomic.Int64
	setGone                           atomic.Int64 // setGone: copied and never confirmed
	clients, refused, faults, expired atomic.Int64 // refused: connections that broke the protocol; faults: memory that went away; expired: leases

	asked, elsewhere, served        atomic.Int64 // pages peers were asked for; that one had; that peers were given
	pulled, pulledBytes, pullTime   atomic.Int64
	pulledNIXL                      atomic.Int64
	clears                          atomic.Int64 // of models, that engines here asked for or peers told of
	tooSlow                         atomic.Int64 // questions that a peer was not asked, since computing is faster
	untrusted                       atomic.Int64 // connections with peers that did not trust us, or we them
	warming, warmed                 atomic.Int64 // pages that a cold tier wants from its peers; that it asked for so far
	pullFailed, quarantined, hinted atomic.Int64
}

// New makes a tier and its memory. Run serves it; Close gives the memory back.
func New(cfg Config) (*Tier, error) {
	p := adaptive
	switch cfg.Policy {
	case "", "adaptive":
	case "lru":
		p = policy{}
	default:
		return nil, fmt.Errorf("%w: eviction policy %q: adaptive or lru", ErrConfig, cfg.Policy)
	}
	if cfg.Bytes < minBytes {
		return nil, fmt.Errorf("%w: %d bytes for the KV tier, and %d are the least", ErrConfig, cfg.Bytes, minBytes)
	}
	if cfg.Ask == 0 {
		cfg.Ask = askLimit
	}
	if cfg.pull == 0 {
		cfg.pull = pullLimit
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a, err := newArena(cfg.Bytes)
	if err != nil {
		return nil, err
	}
	t := &Tier{
		cfg: cfg, log: cfg.Log, arena: a, index: newIndex(a.slabs(), a.slab, p), leases: map[*lease]struct{}{}, pulls: map[key]*pull{},
		ended: make(chan struct{}), peers: peerSet{all: map[string]*peer{}},
		place: here(), rdma: hasRDMA(), cold: make(chan uint32, maxNamespaces), changed: make(chan struct{}, 1), hints: newHints(),
	}
	if cfg.Listen != "" {
		if t.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			a.close()
			return nil, fmt.Errorf("cannot listen for peers of the KV tier: %w", err)
		}
		if err := exposed(&cfg, t.listener); err != nil {
			t.listener.Close()
			a.close()
			return nil, err
		}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // Never fails: crypto/rand ends the process instead.
	t.instance = binary.LittleEndian.Uint64(random[:])
	return t, nil
}

// Endpoint is where other nodes' tiers reach this one; "" where they do not.
func (t *Tier) Endpoint() string {
	if t.listener == nil {
		return ""
	}
	addr, ok := t.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() && t.cfg.Advertise != "" {
		return net.JoinHostPort(t.cfg.Advertise, strconv.Itoa(addr.Port))
	}
	return t.listener.Addr().String()
}

// Close waits for who still reads or writes the memory, and gives it back. It may be called twice.
func (t *Tier) Close() error {
	t.mu.Lock()
	was := t.closed
	t.closed = true
	t.mu.Unlock()
	if was {
		return nil
	}
	if t.listener != nil {
		t.listener.Close()
	}
	t.inUse.Wait()
	t.arena.close()
	return nil
}

// Run serves engines and peers until ctx ends. It returns when all that it started has ended. Call it once, and Close after it.
func (t *Tier) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var all, opening sync.WaitGroup
	defer func() {
		stop()
		opening.Wait()
		t.hints.end()
		err := t.closeTransport() // settles what peers' goroutines may wait for
		close(t.ended)
		all.Wait()
		if err != nil {
			t.log.Warn("cannot end the KV tier's NIXL agents", "error", err)
		}
	}()
	all.Go(func() { t.sweep(ctx) })
	all.Go(func() { t.runPeers(ctx) })
	all.Go(func() { t.warm(ctx) })
	opening.Go(func() { t.openTransport(ctx) })
	failed := make(chan error, 2)
	serving := func(run func() error) {
		all.Go(func() {
			if err := run(); err != nil {
				failed <- err
				stop()
			}
		})
	}
	if t.listener != nil {
		s := &peerServer{tier: t, open: map[net.Conn]struct{}{}}
		serving(func() error { return s.run(ctx, t.listener) })
	}
	if t.cfg.Socket != "" {
		s := &server{tier: t}
		serving(func() error { return s.run(ctx) })
	}
	<-ctx.Done()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// enter lets a caller use the memory until leave.
func (t *Tier) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.inUse.Add(1)
	return nil
}

func (t *Tier) leave() { t.inUse.Done() }

// look is exists for a peer, whose questions are no use of the pages yet.
func (t *Tier) look(ns uint32, hashes []proto.Hash) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.index.serves(ns) {
		return 0
	}
	for i, h := range hashes {
		if t.index.find(key{ns, h}) == none {
			return i
		}
	}
	return len(hashes)
}

// find is exists, which also asks peers, and counts the pages that are on their way. wait bounds the asking.
func (t *Tier) find(ns uint32, hashes []proto.Hash, wait time.Duration) int {
	n := t.exists(ns, hashes)
	n += t.coming(ns, hashes[n:])
	if n == len(hashes) || wait <= 0 {
		return n
	}
	var parent *proto.Hash
	if n > 0 {
		parent = &hashes[n-1]
	}
	return n + t.elsewhere(ns, hashes[n:], parent, wait, false)
}

// exists returns how many of the pages, which follow each other, are here from the first on.
func (t *Tier) exists(ns uint32, hashes []proto.Hash) int {
	t.mu.Lock()
	n := t.index.prefix(ns, hashes)
	t.mu.Unlock()
	t.counts.exists.Add(1)
	t.counts.existsPages.Add(int64(len(hashes)))
	t.counts.existsHits.Add(int64(n))
	return n
}

// lease keeps pages where they are until it is released or expires, whatever comes first.
type lease struct {
	pages   []int32
	expires time.Time
	bytes   int       // that an engine was told of
	told    time.Time // when
}

// maxLease bounds for how long a reader that does not answer keeps its pages.
const maxLease = time.Minute

// pinnedShare bounds the pins: a quarter of the pages here, so that readers that keep all they read do not stop the tier from
// storing. Pins of one page count each.
const pinnedShare = 4

// get looks pages up and keeps those that are here from being evicted, for d at most. It appends the offset of each, or absent. The
// caller releases the lease, which is nil where nothing was found.
func (t *Tier) get(dst []uint64, ns uint32, hashes []proto.Hash, d time.Duration) ([]uint64, *lease) {
	l := &lease{expires: t.cfg.Now().Add(min(d, maxLease))}
	t.mu.Lock()
	x := t.index
	serves := x.serves(ns)
	for _, h := range hashes {
		e := none
		if serves {
			e = x.find(key{ns, h})
		}
		if e == none || x.stats.pinned > max(minPins, x.stats.ready/pinnedShare) {
			dst = append(dst, absent)
			continue
		}
		x.pin(e)
		l.pages = append(l.pages, e)
		dst = append(dst, uint64(x.entries[e].offset))
	}
	x.prefix(ns, hashes) // a use, whether SGLang asked before or took it for granted
	if len(l.pages) > 0 {
		t.leases[l] = struct{}{}
	}
	t.mu.Unlock()
	if len(l.pages) == 0 {
		return dst, nil
	}
	return dst, l
}

// minPins lets small tiers be read.
const minPins = 1024

// release gives a lease's pages back. A lease that has expired was released then.
func (t *Tier) release(l *lease) {
	if l == nil {
		return
	}
	t.mu.Lock()
	t.releaseLocked(l)
	t.mu.Unlock()
}

func (t *Tier) releaseLocked(l *lease) {
	if _, ok := t.leases[l]; !ok {
		return
	}
	delete(t.leases, l)
	for _, e := range l.pages {
		t.index.unpin(e)
	}
}

// sweepPeriod is how much longer than asked for a lease may last. Nobody relies on its end: readers watch their own clocks.
const sweepPeriod = 250 * time.Millisecond

// sweep ends leases that have expired.
func (t *Tier) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.expire(t.cfg.Now())
		}
	}
}

func (t *Tier) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.leases {
		if now.After(l.expires) {
			t.counts.expired.Add(1)
			t.releaseLocked(l)
		}
	}
}
