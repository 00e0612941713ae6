package sim

import (
	"container/heap"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// cache is the prefix cache of one rank: a radix tree over whole pages. Pages of running
// requests are locked; of the other leaves the least recently used one is evicted first. It
// belongs to its rank's goroutine.
type cache struct {
	page     int
	roots    map[domain]*node
	clock    uint64 // One tick for each operation: a total order of accesses.
	pages    int    // all pages in the tree
	locked   int    // pages with refs > 0
	leaves   leafHeap
	changes  *recorder
	scratch  []byte
	evicted  int // pages evicted since the start
	inserted int // pages inserted since the start
}

func newCache(page int, changes *recorder) *cache {
	return &cache{page: page, roots: make(map[domain]*node), changes: changes}
}

// evictablePages returns the number of pages that could be freed now.
func (c *cache) evictablePages() int { return c.pages - c.locked }

// match finds the longest cached prefix of tokens and marks it as used. It returns its last
// node, which it splits if the node is longer, and its length in pages; nil and 0 if nothing is
// cached.
func (c *cache) match(s domain, tokens []uint32) (*node, int) {
	at := c.roots[s]
	if at == nil {
		return nil, 0
	}
	c.clock++
	at, done := c.descend(at, tokens)
	return at, done / c.page
}

// descend walks from the root at as far as tokens are cached, and returns their number.
func (c *cache) descend(at *node, tokens []uint32) (last *node, done int) {
	for len(tokens)-done >= c.page {
		child := at.children[string(c.key(tokens[done:]))]
		if child == nil {
			break
		}
		c.touch(child) // SGLang, too, marks a node as used if only its head is.
		n := child.common(tokens[done:], c.page)
		if n < len(child.tokens) {
			return child.split(n/c.page, c.page, c.keyString), done + n
		}
		at, done = child, done+n
	}
	return at, done
}

// peek returns the length of match in tokens, and changes nothing.
func (c *cache) peek(s domain, tokens []uint32) int {
	at, done := c.roots[s], 0
	for at != nil && len(tokens)-done >= c.page {
		child := at.children[string(c.key(tokens[done:]))]
		if child == nil {
			break
		}
		n := child.common(tokens[done:], c.page)
		done += n
		if n < len(child.tokens) {
			break
		}
		at = child
	}
	return done
}

// insert inserts the whole pages of tokens. It returns the last node of the path and the number
// of new pages.
func (c *cache) insert(s domain, tokens []uint32) (last *node, added int) {
	tokens = tokens[:len(tokens)-len(tokens)%c.page]
	if len(tokens) == 0 {
		return nil, 0
	}
	at := c.roots[s]
	if at == nil {
		at = &node{heapAt: -1, domain: s}
		c.roots[s] = at
	}
	c.clock++
	at, done := c.descend(at, tokens)
	if done == len(tokens) {
		return at, 0
	}
	return c.attach(at, tokens[done:])
}

// attach inserts a new leaf with rest below at.
func (c *cache) attach(at *node, rest []uint32) (*node, int) {
	leaf := &node{
		parent:  at,
		tokens:  append([]uint32(nil), rest...),
		digests: appendDigests(make([]digest, 0, len(rest)/c.page), chainAfter(at), rest, c.page),
		heapAt:  -1,
		domain:  at.domain,
	}
	if at.children == nil {
		at.children = make(map[string]*node, 1)
	}
	at.children[c.keyString(rest)] = leaf
	c.pages += leaf.pages()
	c.inserted += leaf.pages()
	c.clock++ // Newer than a tail that descend has split off.
	c.touch(leaf)
	c.settle(at)
	c.settle(leaf)
	c.changes.stored(leaf)
	return leaf, leaf.pages()
}

// chainAfter returns the hash chain that continues after n.
func chainAfter(n *node) kvevent.Chain {
	if n.isRoot() {
		return kvevent.NewChain(n.domain.salt)
	}
	return kvevent.ContinueChain(n.digests[len(n.digests)-1])
}

// lock protects n and its ancestors from eviction. n may be nil.
func (c *cache) lock(n *node) {
	for ; n != nil && !n.isRoot(); n = n.parent {
		if n.refs == 0 {
			c.locked += n.pages()
		}
		n.refs++
		c.settle(n)
	}
}

// unlock undoes one lock of n.
func (c *cache) unlock(n *node) {
	for ; n != nil && !n.isRoot(); n = n.parent {
		n.refs--
		if n.refs == 0 {
			c.locked -= n.pages()
		}
		c.settle(n)
	}
}

// evict frees at least want pages, if so many are unlocked, in whole leaves as SGLang does. It
// returns the number freed.
func (c *cache) evict(want int) (freed int) {
	for freed < want && len(c.leaves) > 0 {
		n, _ := heap.Pop(&c.leaves).(*node)
		delete(n.parent.children, string(c.key(n.tokens)))
		c.pages -= n.pages()
		freed += n.pages()
		c.changes.removed(n)
		c.orphan(n.parent)
	}
	c.evicted += freed
	return freed
}

// orphan updates a node that has lost a child.
func (c *cache) orphan(n *node) {
	if n.isRoot() && len(n.children) == 0 {
		delete(c.roots, n.domain) // Salts come and go; an empty root would leak.
		return
	}
	c.settle(n)
}

// clear empties the tree. Nothing may be locked.
func (c *cache) clear() {
	c.roots = make(map[domain]*node)
	c.leaves = nil
	c.pages, c.locked = 0, 0
	c.changes.cleared()
}

// touch marks n as used now.
func (c *cache) touch(n *node) {
	n.used = c.clock
	if n.heapAt >= 0 {
		heap.Fix(&c.leaves, n.heapAt)
	}
}

// settle adds n to the eviction heap or removes it, by its state.
func (c *cache) settle(n *node) {
	switch in := n.heapAt >= 0; {
	case n.evictable() && !in:
		heap.Push(&c.leaves, n)
	case !n.evictable() && in:
		heap.Remove(&c.leaves, n.heapAt)
	}
}

// key is the map key of the first page of tokens, valid until the next call.
func (c *cache) key(tokens []uint32) []byte {
	c.scratch = appendPage(c.scratch[:0], tokens[:c.page])
	return c.scratch
}

func (c *cache) keyString(tokens []uint32) string { return string(c.key(tokens)) }
