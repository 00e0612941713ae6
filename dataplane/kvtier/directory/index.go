package directory

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// maxNodes bounds announcing nodes, also those that the cluster does not list yet.
	maxNodes = 4096
	// defaultBytes holds 11 million pages of up to 64 holders.
	defaultBytes = 256 << 20
)

// Bus carries messages between routers and announcers. Package cluster has one.
type Bus interface {
	// Publish sends to all subscribers. It does not wait for them, and keeps nothing of data.
	Publish(subject string, data []byte) error
	// SubscribeOwn calls f with each message and the name in the token of its sender, from one
	// goroutine; "" is one that may use any. f owns data.
	SubscribeOwn(subject string, f func(owner string, data []byte)) (stop func(), err error)
	// RequestNode returns the first answer of a node to a message.
	RequestNode(ctx context.Context, subject, owner string, data []byte) ([]byte, error)
}

// Config configures an Index. Zero values take their defaults.
type Config struct {
	Bus Bus
	// Bound of the table of pages; default 256 MiB. Pages beyond it are counted.
	MaxBytes int
	// Time without a report after which a node is dropped; default 40 s, four times the announcers'
	// longest pause.
	Silence time.Duration
	Log     *slog.Logger
	// Hash is a keyed hash of token ids, as the block index has. Default: the Go runtime's.
	Hash func(tokens []uint32) uint64
	// Seed of the places of pages in the table. Default: random.
	Seed uint64
}

// Index holds the pages that the KV tiers of nodes have announced.
type Index struct {
	cfg    Config
	counts counts
	wake   chan struct{} // capacity 1: a node must be learnt, or the nodes have changed

	mu       sync.Mutex // guards all below, except contents.view
	contents contents
	report   announce.Report // being read
}

var _ routing.TierDirectory = (*Index)(nil)

// New returns an empty index. Run must follow.
func New(cfg Config) *Index {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultBytes)
	cfg.Silence = cmp.Or(cfg.Silence, 40*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Hash == nil {
		cfg.Hash = runtimeHash()
	}
	rng := rand.New(rand.NewPCG(cmp.Or(cfg.Seed, rand.Uint64()), 0))
	x := &Index{cfg: cfg, wake: make(chan struct{}, 1)}
	x.contents = contents{
		maxBytes: cfg.MaxBytes, counts: &x.counts, nodes: map[string]*node{}, table: newTable(0, 1, rng.Uint64()), rng: rng,
		caches: hashCaches{byPageSize: map[int]*hashCache{}, hash: cfg.Hash},
	}
	return x
}

// SetNodes sets the nodes of the cluster and the router's numbers of them, which are above 0. Pages
// of other nodes are dropped. Call it from one goroutine at a time.
func (x *Index) SetNodes(numbers map[string]uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.contents
	if maps.Equal(numbers, c.numbers) {
		return
	}
	c.numbers = numbers
	for name, n := range c.nodes {
		if numbers[name] == 0 && len(n.kinds) > 0 {
			c.drop(n)
		}
	}
	c.publish()
	x.kick()
}

// kick wakes Run. It does not block.
func (x *Index) kick() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Run listens to announcers until ctx ends. Call it once.
func (x *Index) Run(ctx context.Context) error {
	var stop func()
	var learners sync.WaitGroup
	defer learners.Wait()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	slots := make(chan struct{}, maxLearners)
	for {
		if stop == nil {
			var err error
			if stop, err = x.cfg.Bus.SubscribeOwn(announce.SubjectReport, x.hear); err != nil {
				x.cfg.Log.Warn("cannot listen to announcements of KV tiers; trying again", "error", err)
			} else if x.cfg.Bus.Publish(announce.SubjectJoin, nil) != nil {
				x.counts.failed.Add(1) // announcers publish by themselves within seconds
			}
		}
		for n := x.nextBehind(time.Now()); n != nil; n = x.nextBehind(time.Now()) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			learners.Go(func() {
				x.learn(ctx, n)
				<-slots
				x.kick()
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
		case now := <-tick.C:
			x.dropSilent(now)
		}
	}
}

// hear takes a report of an announcer.
func (x *Index) hear(owner string, data []byte) {
	x.counts.messages.Add(1)
	x.counts.bytes.Add(uint64(len(data)))
	x.mu.Lock()
	defer x.mu.Unlock()
	m, c := &x.report, &x.contents
	if err := m.Read(data); err != nil || m.Type != announce.TypeChanges || m.Node == "" || owner != "" && m.Node != owner {
		x.counts.malformed.Add(1)
		return
	}
	n := c.nodes[m.Node]
	if n == nil {
		if len(c.nodes) >= maxNodes {
			x.counts.unkept.Add(1)
			return
		}
		n = &node{name: m.Node}
		c.nodes[m.Node] = n
	}
	n.heard = time.Now()
	if n.owner != owner || n.announcer != m.Announcer || n.epoch != m.Epoch {
		c.drop(n)
		n.owner, n.announcer, n.epoch, n.applied, n.announced = owner, m.Announcer, m.Epoch, 0, 0
	}
	n.announced = max(n.announced, m.Next)
	switch {
	case !n.known || n.learning:
	case m.From > n.applied:
		x.counts.gaps.Add(1)
	case m.Next >= n.applied:
		c.apply(n, m)
	}
	if n.behind() {
		x.kick()
	}
}

// dropSilent drops nodes whose announcers are silent.
func (x *Index) dropSilent(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.contents
	for name, n := range c.nodes {
		if n.learning || now.Sub(n.heard) < x.cfg.Silence {
			continue
		}
		c.drop(n)
		delete(c.nodes, name)
		x.counts.forgotten.Add(1)
	}
}

// Stored implements routing.TierDirectory. It hashes one page of a prompt that no tier holds; of
// others it hashes pages up to the first that no tier holds, unless it remembers their hashes.
func (x *Index) Stored(dst []routing.TierMatch, a routing.TierQuery) []routing.TierMatch {
	v := x.contents.view.Load()
	if v == nil || a.LoRA != "" {
		return dst
	}
	groups := v.models[a.Model]
	if len(groups) == 0 {
		return dst
	}
	x.counts.lookups.Add(1)
	before, tokens := len(dst), 0
	for i := range groups {
		g := &groups[i]
		l := lookup{
			table: v.table, group: g, tokens: a.Tokens, pages: min(len(a.Tokens)/g.pageSize, maxPages), maxHashed: maxHashed / (pageCost + 4*g.pageSize),
		}
		l.setSalt(a.Salt)
		dst = l.run(dst)
		tokens = max(tokens, l.at*g.pageSize)
		x.counts.hashed.Add(uint64(l.hashed))
		x.counts.remembered.Add(uint64(l.remembered))
	}
	if len(dst) > before {
		x.counts.found.Add(1)
		x.counts.tokens.Add(uint64(tokens))
	}
	return dst
}
