package directory

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// mostHolders bounds nodes and their kinds of pages, and so the words of a page.
	mostHolders = 1024
	// mostNodes bounds those that are heard of, also while the cluster does not list them.
	mostNodes = 4096
	// defaultBytes are 11 million pages of up to 64 nodes.
	defaultBytes = 256 << 20
	// longestPage is the longest page, in tokens, that prompts are cut into. SGLang's have 1 to 128.
	longestPage = 512
)

// Config says what an Index listens to. Zero values take their defaults.
type Config struct {
	Bus      Bus
	MaxBytes int           // of the table of pages, at most; default 256 MiB. What finds no room is counted
	Silence  time.Duration // after which a node is forgotten; default 40 s, and four times as long as announcers rest
	Log      *slog.Logger
	// Hash is a keyed hash of token ids; the block index has a fast one. Default: the Go runtime's.
	Hash func(tokens []uint32) uint64
}

// Index knows what the tiers of nodes hold.
type Index struct {
	cfg   Config
	known atomic.Pointer[known] // nil: no tier holds anything
	count counters
	work  chan struct{} // capacity 1: a node is to be learnt, or somebody is new

	mu      sync.Mutex // guards what follows, and all of nodes and holders
	nodes   map[string]*node
	holders []*holder // by bit; nil is free
	table   *table
	places  map[string]uint32
	memos   map[int]*memo // by tokens of a page
	in      report        // that is read
}

var _ routing.TierDirectory = (*Index)(nil)

// counters are read by Status and metrics.
type counters struct {
	messages, bytes, malformed, lost    atomic.Uint64 // lost: gaps that were noticed
	resyncs, resyncPages, caughtUp      atomic.Uint64 // all of a node's contents; pages in them; what was missed alone
	failed                              atomic.Uint64 // questions without an answer
	forgotten, leftOut, unkept          atomic.Uint64 // nodes; pages without room; kinds and nodes without
	lookups, hits, tokens, hashed, kept atomic.Uint64 // kept: pages whose hashes were remembered
}

// node is a sidecar that announces.
type node struct {
	name      string
	id, epoch uint64
	at        uint64 // changes that are applied
	heard     uint64 // changes that there are
	learnt    bool   // its contents were read once, so that changes can be applied
	learning  bool   // a goroutine is at it
	drops     int    // counts how often what it holds was dropped
	retry     time.Time
	last      time.Time
	kinds     []*holder // in the node's order; nil: not kept
}

// holder is one kind of pages of one node, and a bit in the table.
type holder struct {
	store.Kind
	node  *node
	bit   int
	pages int
}

// New returns an index that knows nothing. Run must follow.
func New(cfg Config) *Index {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultBytes)
	cfg.Silence = cmp.Or(cfg.Silence, 40*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Hash == nil {
		cfg.Hash = seeded()
	}
	return &Index{cfg: cfg, nodes: map[string]*node{}, memos: map[int]*memo{}, table: newTable(0, 1), work: make(chan struct{}, 1)}
}

// SetPlaces says which nodes there are, and the numbers that routing has for their places. What others hold is forgotten. Call it from one
// goroutine at a time.
func (x *Index) SetPlaces(places map[string]uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if maps.Equal(places, x.places) {
		return
	}
	x.places = places
	for name, n := range x.nodes {
		if places[name] == 0 && len(n.kinds) > 0 {
			x.dropLocked(n)
		}
	}
	x.publishLocked()
	x.kick()
}

// kick has Run look around. It does not block.
func (x *Index) kick() {
	select {
	case x.work <- struct{}{}:
	default:
	}
}

// Run listens until ctx ends. Call it once.
func (x *Index) Run(ctx context.Context) error {
	var stop func()
	var learners sync.WaitGroup
	defer learners.Wait()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	room := make(chan struct{}, mostLearners)
	for {
		if stop == nil {
			var err error
			if stop, err = x.cfg.Bus.Subscribe(subjectTell, x.hear); err != nil {
				x.cfg.Log.Warn("cannot listen to what KV tiers hold; trying again", "error", err)
			} else if x.cfg.Bus.Publish(subjectWho, nil) != nil {
				x.count.failed.Add(1) // they tell within some seconds by themselves
			}
		}
		for n := x.next(time.Now()); n != nil; n = x.next(time.Now()) {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			learners.Go(func() {
				x.learn(ctx, n)
				<-room
				x.kick()
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.work:
		case now := <-look.C:
			x.forgetSilent(now)
		}
	}
}

// hear takes what an announcer tells.
func (x *Index) hear(data []byte) {
	x.count.messages.Add(1)
	x.count.bytes.Add(uint64(len(data)))
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.in
	if err := m.read(data); err != nil || m.kind != kindTell || m.node == "" {
		x.count.malformed.Add(1)
		return
	}
	n := x.nodes[m.node]
	if n == nil {
		if len(x.nodes) >= mostNodes {
			x.count.unkept.Add(1)
			return
		}
		n = &node{name: m.node}
		x.nodes[m.node] = n
	}
	n.last = time.Now()
	if n.id != m.id || n.epoch != m.epoch {
		x.dropLocked(n)
		n.id, n.epoch, n.at, n.heard = m.id, m.epoch, 0, 0
	}
	n.heard = max(n.heard, m.next)
	switch {
	case !n.learnt || n.learning:
	case m.at > n.at:
		x.count.lost.Add(1)
	case m.next >= n.at:
		x.applyLocked(n, m)
	}
	if n.behind() {
		x.kick()
	}
}

// behind reports whether there is more to know of a node than was told.
func (n *node) behind() bool { return !n.learning && (!n.learnt || n.heard > n.at) }

// applyLocked takes over changes that follow those known, or some of them again.
func (x *Index) applyLocked(n *node, m *report) {
	x.kindsLocked(n, m.kinds)
	for i := range m.changes {
		c := &m.changes[i]
		h := n.kinds[c.Kind]
		switch {
		case h == nil:
		case c.Gone:
			if held := x.table.find(c.Page); held != nil && x.table.clear(held, h.bit) {
				h.pages--
			}
		default:
			x.addLocked(h, c.Page)
		}
	}
	if m.kind != kindContents {
		n.at = m.next
	}
}

// addLocked notes that a holder has a page, if there is room.
func (x *Index) addLocked(h *holder, page uint64) {
	held := x.table.place(page)
	if held == nil {
		x.growLocked(x.table.words())
		if held = x.table.place(page); held == nil {
			x.count.leftOut.Add(1)
			return
		}
	}
	if x.table.set(held, h.bit) {
		h.pages++
	}
}

// growLocked makes the table anew with room for as much again as is held, where the bound allows.
func (x *Index) growLocked(words int) {
	live := x.table.used - x.table.dead
	slots := leastSlots
	for slots/2 < live {
		slots *= 2
	}
	for slots > leastSlots && slots*(1+words)*8 > x.cfg.MaxBytes {
		slots /= 2
	}
	if words == x.table.words() && slots <= x.table.slots() && x.table.dead < x.table.used/8 {
		return // it would be as full again
	}
	t := newTable(slots, words)
	if !x.table.copyTo(t) {
		// More holders than the bound has room for: all is learnt again, as far as there is room.
		t = newTable(slots, words)
		for _, n := range x.nodes {
			n.learnt = false
			n.drops++
			for _, h := range n.kinds {
				if h != nil {
					h.pages = 0
				}
			}
		}
	}
	x.table = t
	x.publishLocked()
}

// kindsLocked finds the holders of a node's kinds, in its order.
func (x *Index) kindsLocked(n *node, kinds []store.Kind) {
	changed := false
	for i := range kinds {
		if i < len(n.kinds) {
			if h := n.kinds[i]; h != nil && h.Open != kinds[i].Open {
				h.Open, changed = kinds[i].Open, true
			}
			continue
		}
		h := x.holderLocked(n, &kinds[i])
		n.kinds, changed = append(n.kinds, h), true
	}
	if changed {
		x.publishLocked()
	}
}

// holderLocked makes a holder; nil: such pages cannot be kept.
func (x *Index) holderLocked(n *node, k *store.Kind) *holder {
	bit := 0
	for bit < len(x.holders) && x.holders[bit] != nil {
		bit++
	}
	if bit == mostHolders || k.Tokens > longestPage {
		x.count.unkept.Add(1)
		return nil
	}
	if bit == len(x.holders) {
		x.holders = append(x.holders, nil)
	}
	h := &holder{Kind: *k, node: n, bit: bit}
	x.holders[bit] = h
	if words := x.table.words(); bit >= 64*words {
		x.growLocked(2 * words)
	}
	return h
}

// dropLocked forgets what a node holds.
func (x *Index) dropLocked(n *node) {
	gone := n.kinds
	n.kinds, n.learnt = nil, false
	n.drops++
	if len(gone) == 0 {
		return
	}
	for _, h := range gone {
		if h != nil {
			x.holders[h.bit] = nil
		}
	}
	x.publishLocked() // before the bits are others'
	for _, h := range gone {
		if h != nil {
			x.table.forget(h.bit)
		}
	}
	if t := x.table; t.slots() > leastSlots && t.used-t.dead < t.slots()/16 {
		x.growLocked(t.words())
	}
}

// forgetSilent drops nodes that nothing was heard of.
func (x *Index) forgetSilent(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, n := range x.nodes {
		if n.learning || now.Sub(n.last) < x.cfg.Silence {
			continue
		}
		x.dropLocked(n)
		delete(x.nodes, name)
		x.count.forgotten.Add(1)
	}
}
