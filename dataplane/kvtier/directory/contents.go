package directory

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// maxHolders bounds the kinds of pages of all nodes, and so the bits of a page in the table.
	maxHolders = 1024
	// maxPageSize is the longest page in tokens. SGLang's pages have 1 to 128.
	maxPageSize = 512
)

// node is a sidecar that announces the pages of its tier.
type node struct {
	name       string
	owner      string // see Bus
	announcer  uint64
	epoch      uint64
	applied    uint64 // number of changes applied
	announced  uint64 // number of changes announced
	known      bool   // the contents were read, so that changes can be applied
	learning   bool   // a goroutine asks the announcer
	generation int    // counts how often the node's pages were dropped
	retry      time.Time
	turn       time.Time // the last one of being learnt
	heard      time.Time // time of the last report
	kinds      []*holder // by the node's index of the kind; nil: left out
}

// behind reports whether the announcer must be asked.
func (n *node) behind() bool { return !n.learning && (!n.known || n.announced > n.applied) }

// holder is one kind of pages on one node, and its bit in the table.
type holder struct {
	proto.Kind
	node  *node
	bit   int
	pages int
}

// contents is the pages of all tiers, as announced. Index.mu guards it; lookups read view without a
// lock.
type contents struct {
	maxBytes int
	counts   *counts
	nodes    map[string]*node
	holders  []*holder // by bit; nil is free
	table    *table
	rng      *rand.Rand        // of tables
	numbers  map[string]uint32 // the router's numbers of nodes
	caches   hashCaches
	view     atomic.Pointer[view] // nil: no tier holds a page
}

// apply takes over changes that continue the known ones or repeat some of them.
func (c *contents) apply(n *node, m *announce.Report) {
	c.setKinds(n, m.Kinds)
	for i := range m.Changes {
		change := &m.Changes[i]
		h := n.kinds[change.Kind]
		switch {
		case h == nil:
		case change.Removed:
			if bits := c.table.find(change.Page); bits != nil && c.table.clear(bits, h.bit) {
				h.pages--
			}
		default:
			c.add(h, change.Page)
		}
	}
	if m.Type != announce.TypeContents {
		n.applied = m.Next
	}
}

// add notes that a holder has a page, if there is room.
func (c *contents) add(h *holder, page uint64) {
	bits := c.table.insert(page)
	if bits == nil {
		c.grow(c.table.words())
		if bits = c.table.insert(page); bits == nil {
			c.counts.leftOut.Add(1)
			return
		}
	}
	if c.table.set(bits, h.bit) {
		h.pages++
	}
}

// grow replaces the table by one with room for twice the pages, as far as the bound allows.
func (c *contents) grow(words int) {
	live := c.table.used - c.table.unheld
	slots := minSlots
	for slots/2 < live {
		slots *= 2
	}
	for slots > minSlots && slots*(1+words)*8 > c.maxBytes {
		slots /= 2
	}
	if words == c.table.words() && slots <= c.table.slots() && c.table.unheld < c.table.used/8 {
		return // the new table would be as full
	}
	t := newTable(slots, words, c.rng.Uint64())
	if !c.table.copyTo(t) {
		// More holders than the bound has room for: all nodes are learnt again, as far as there
		// is room.
		t = newTable(slots, words, c.rng.Uint64())
		for _, n := range c.nodes {
			n.known = false
			n.generation++
			for _, h := range n.kinds {
				if h != nil {
					h.pages = 0
				}
			}
		}
	}
	c.table = t
	c.publish()
}

// setKinds takes over the kinds of a node.
func (c *contents) setKinds(n *node, kinds []proto.Kind) {
	changed := false
	for i := range kinds {
		if i < len(n.kinds) {
			if h := n.kinds[i]; h != nil && h.Open != kinds[i].Open {
				h.Open, changed = kinds[i].Open, true
			}
			continue
		}
		n.kinds, changed = append(n.kinds, c.newHolder(n, &kinds[i])), true
	}
	if changed {
		c.publish()
	}
}

// newHolder returns a holder with a free bit, or nil where there is none or pages are too long.
func (c *contents) newHolder(n *node, k *proto.Kind) *holder {
	bit := 0
	for bit < len(c.holders) && c.holders[bit] != nil {
		bit++
	}
	if bit == maxHolders || k.PageSize > maxPageSize {
		c.counts.unkept.Add(1)
		return nil
	}
	if bit == len(c.holders) {
		c.holders = append(c.holders, nil)
	}
	h := &holder{Kind: *k, node: n, bit: bit}
	c.holders[bit] = h
	if words := c.table.words(); bit >= 64*words {
		c.grow(2 * words)
	}
	return h
}

// drop forgets the pages of a node.
func (c *contents) drop(n *node) {
	dropped := n.kinds
	n.kinds, n.known = nil, false
	n.generation++
	if len(dropped) == 0 {
		return
	}
	for _, h := range dropped {
		if h != nil {
			c.holders[h.bit] = nil
		}
	}
	c.publish() // before the bits are free for other holders
	for _, h := range dropped {
		if h != nil {
			c.table.removeHolder(h.bit)
		}
	}
	if t := c.table; t.slots() > minSlots && t.used-t.unheld < t.slots()/16 {
		c.grow(t.words())
	}
}

// publish replaces the view of lookups.
func (c *contents) publish() {
	type reader struct {
		node  uint32
		model string
	}
	v := &view{table: c.table, models: map[string][]pageGroup{}}
	open := map[reader]int{}
	for _, h := range c.holders {
		if h != nil && h.Open {
			open[reader{c.numbers[h.node.name], h.Model}]++
		}
	}
	for bit, h := range c.holders {
		if h == nil || c.numbers[h.node.name] == 0 {
			continue
		}
		number := c.numbers[h.node.name]
		g := v.group(h.Model, h.PageSize)
		if g.all == nil {
			g.all, g.holders, g.cache = make([]uint64, c.table.words()), make([]holderView, len(c.holders)), c.caches.of(h.PageSize)
		}
		g.all[bit/64] |= 1 << (bit % 64)
		g.holders[bit] = holderView{number, uint32(h.ID ^ h.ID>>32), h.Open && open[reader{number, h.Model}] == 1}
	}
	if len(v.models) == 0 {
		v = nil
	}
	c.view.Store(v)
}
