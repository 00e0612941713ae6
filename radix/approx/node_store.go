package approx

import (
	"slices"
	"sort"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// node is a stretch of keys that the same workers hold. It is split where prompts diverge, as
// SGLang splits its own nodes, so each part ages by itself.
type node struct {
	id      uint64 // in the keys of its children
	parent  *node
	chained *node // next in the bucket
	keys    []Key
	holders []holder  // by serial; a subset of the parent's, never empty
	first   [1]holder // the memory of holders while there is one, as of nearly all nodes
}

// holder is one worker of a node. It repeats the numbers of its cache, so that a look-up reads
// one array.
type holder struct {
	serial  uint32
	worker  Worker
	holding *holding
}

const (
	nodeBytes   = int64(unsafe.Sizeof(node{}))
	holderBytes = int64(unsafe.Sizeof(holder{}))
	keyBytes    = int64(unsafe.Sizeof(Key(0)))
	// minKeysBytes is the size of the shortest keys: the allocator puts two pieces of 8 bytes
	// into one block and frees them together.
	minKeysBytes = 16
)

// byteSize returns the bytes of a node without holdings. append rounds capacities up to the
// allocator's size classes.
func (n *node) byteSize() int64 {
	size := nodeBytes + max(int64(cap(n.keys))*keyBytes, minKeysBytes)
	if cap(n.holders) > len(n.first) {
		size += int64(cap(n.holders)) * holderBytes
	}
	return size
}

// find returns the holding of c on n, or nil, and its index.
func (n *node) find(c *cache) (*holding, int) {
	// A node of one prompt has one holder, and the newest cache is the last.
	if last := len(n.holders) - 1; last >= 0 && n.holders[last].serial <= c.serial {
		if n.holders[last].serial == c.serial {
			return n.holders[last].holding, last
		}
		return nil, last + 1
	}
	i := sort.Search(len(n.holders), func(i int) bool { return n.holders[i].serial >= c.serial })
	if i < len(n.holders) && n.holders[i].serial == c.serial {
		return n.holders[i].holding, i
	}
	return nil, i
}

// nodeStore has the nodes and holdings of a tree, and counts their bytes. The tree's lock
// guards it.
type nodeStore struct {
	hashKeys *hashKeys
	buckets  []*node // the child table: a power of two, never grown
	root     node    // id 0, without holders
	lastID   uint64  // of a node
	recent   useList // all holdings
	free     freeList
	nodes    int64
	holdings int64
	bytes    int64 // with buckets and caches, without the free list
}

// bucketBytes is the part of the memory bound for which the child table has one bucket. The
// smallest node with its holding takes 200 bytes, so a bucket has at most 2.5 nodes on average.
const bucketBytes = 512

// bucket returns the bucket of the child of node id that begins with k.
func (s *nodeStore) bucket(id uint64, k Key) **node {
	h := keyed.Fold(uint64(k)^s.hashKeys[keyChild], id^s.hashKeys[keyMix])
	return &s.buckets[h&uint64(len(s.buckets)-1)]
}

// child returns the child of n that begins with k, or nil.
func (s *nodeStore) child(n *node, k Key) *node {
	c := *s.bucket(n.id, k)
	for c != nil && (c.parent != n || c.keys[0] != k) {
		c = c.chained
	}
	return c
}

// link hangs n below its parent.
func (s *nodeStore) link(n *node) {
	b := s.bucket(n.parent.id, n.keys[0])
	n.chained, *b = *b, n
}

// unlink takes n from below its parent.
func (s *nodeStore) unlink(n *node) {
	b := s.bucket(n.parent.id, n.keys[0])
	for *b != n {
		b = &(*b).chained
	}
	*b, n.chained = n.chained, nil
}

// newNode returns a node with a copy of keys below parent, without a holder.
func (s *nodeStore) newNode(parent *node, keys []Key) *node {
	s.nodes++
	s.lastID++
	n := s.free.takeNode(len(keys))
	if n == nil {
		n = &node{keys: newKeys(len(keys))}
		n.holders = n.first[:0]
	}
	n.id, n.parent, n.keys = s.lastID, parent, append(n.keys, keys...)
	s.bytes += n.byteSize()
	return n
}

// newKeys returns an empty slice for n keys, whose capacity is the allocator's size class.
func newKeys(n int) []Key { return append([]Key(nil), make([]Key, keysCapacity(n))...)[:0] }

// split cuts n at offset, 0 < offset < len(n.keys), and returns the new upper part. The lower
// part stays the same node, because its children refer to it. Both parts are copies, so each
// can be freed alone.
func (s *nodeStore) split(n *node, offset int) *node {
	s.unlink(n)
	upper := s.newNode(n.parent, n.keys[:offset])
	s.bytes -= upper.byteSize() + n.byteSize()
	s.cutFront(n, offset)
	n.parent = upper
	upper.holders = append(upper.holders, n.holders...)
	for i := range upper.holders {
		upper.holders[i].holding = s.splitHolding(n.holders[i].holding, upper)
	}
	s.bytes += upper.byteSize() + n.byteSize()
	s.link(upper)
	s.link(n)
	return upper
}

// cutFront cuts the first keys off n, and moves the rest into memory of its own size.
func (s *nodeStore) cutFront(n *node, offset int) {
	rest := n.keys[offset:]
	free := s.free.takeNode(len(rest))
	if free == nil {
		n.keys = append(newKeys(len(rest)), rest...)
		return
	}
	n.keys, free.keys = free.keys, n.keys
	n.keys = append(n.keys, rest...) // rest is in the free node's memory now
	s.free.putNode(free)
}

// splitHolding returns a holding of upper, the part cut off the top of h's node, just before h
// in both lists.
func (s *nodeStore) splitHolding(h *holding, upper *node) *holding {
	u := s.free.takeHolding()
	*u = *h
	u.node, u.links = upper, [2]link{}
	h.cache.list.insert(u, h.links[ofCache].prev)
	s.recent.insert(u, h.links[ofAll].prev)
	s.holdings++
	s.bytes += holdingBytes
	return u
}

// use makes c hold n, and its holding the most recently used but for above, the holding of n's
// parent.
func (s *nodeStore) use(c *cache, n *node, above *holding, now Tick) *holding {
	h, at := n.find(c)
	if h == nil {
		h = s.free.takeHolding()
		h.node, h.cache, h.created = n, c, now
		c.units += int64(len(n.keys))
		s.holdings++
		s.bytes += holdingBytes - n.byteSize()
		n.holders = slices.Insert(n.holders, at, holder{c.serial, c.worker, h})
		if cap(n.holders) > len(n.first) {
			n.first[0] = holder{} // else it keeps a holding that is dropped
		}
		s.bytes += n.byteSize()
	} else {
		c.list.remove(h)
		s.recent.remove(h)
	}
	if h.used != now {
		h.usedPrev, h.used = h.used, now
	}
	c.list.insert(h, above)
	s.recent.insert(h, above)
	return h
}

// drop drops h, which is a leaf of its cache.
func (s *nodeStore) drop(h *holding) {
	h.cache.list.remove(h)
	s.recent.remove(h)
	h.cache.units -= int64(len(h.node.keys))
	s.holdings--
	s.bytes -= holdingBytes
	_, at := h.node.find(h.cache)
	s.removeHolder(h.node, at)
	s.free.putHolding(h)
}

// removeHolder takes a holder out. A node without holders has no children and is freed.
func (s *nodeStore) removeHolder(n *node, at int) {
	s.bytes -= n.byteSize()
	n.holders = slices.Delete(n.holders, at, at+1)
	if len(n.holders) == 0 {
		s.unlink(n)
		s.nodes--
		s.free.putNode(n)
		return
	}
	if len(n.holders)*4 <= cap(n.holders) {
		n.holders = append(n.first[:0], n.holders...)
	}
	s.bytes += n.byteSize()
}

// insert makes c hold chain, and returns the number of units that it did not hold before.
func (s *nodeStore) insert(c *cache, chain []Key, now Tick) int64 {
	before := c.units
	n, above := &s.root, (*holding)(nil)
	for len(chain) > 0 {
		next := s.child(n, chain[0])
		if next == nil {
			next = s.newNode(n, chain)
			s.link(next)
			chain = nil
		} else {
			k := keyed.CommonPrefix(next.keys, chain)
			if k < len(next.keys) {
				next = s.split(next, k)
			}
			chain = chain[k:]
		}
		above = s.use(c, next, above, now)
		n = next
	}
	return c.units - before
}

// deepest returns the last node of chain's path that c holds; the root if there is none.
func (s *nodeStore) deepest(c *cache, chain []Key) *node {
	at := &s.root
	for len(chain) > 0 {
		next := s.child(at, chain[0])
		if next == nil {
			break
		}
		if h, _ := next.find(c); h == nil || keyed.CommonPrefix(next.keys, chain) < len(next.keys) {
			break
		}
		chain, at = chain[len(next.keys):], next
	}
	return at
}
