package policies

import "container/heap"

// cache is a prefix cache over the nodes of a plan: of each node it holds some leading pages,
// and of a node's children only if it holds all of the node. Locked paths stay; of the other
// leaves the least recently used one gives its last pages first, a piece at once.
type cache struct {
	plan   *plan
	chunks []*[chunkSlots]slot
	leaves leafHeap
	clock  int64 // one tick an operation: a total order of uses
	pages  int32
	locked int32 // pages of nodes with refs > 0
	told   func(n, held int32)
	// piece is the number of pages that go at once, if a node has so many; 0: as many as needed.
	// SGLang's tree drops whole leaves, which prefill has made of one chunk or of less.
	piece int32
}

// chunkSlots of slots are made when the first is used: a worker of many meets few of a long
// trace's nodes.
const chunkSlots = 16

// slot is a worker's part of one node.
type slot struct {
	held   int32
	refs   int32 // running requests that need it
	kids   int32 // children with held > 0
	heapAt int32 // 1 + its place among the leaves that may go; 0 is none
	used   int64
}

// newCache returns an empty cache; told hears of every change of a node's held pages, and may
// be nil.
func newCache(p *plan, told func(n, held int32)) *cache {
	c := &cache{plan: p, chunks: make([]*[chunkSlots]slot, len(p.nodes)/chunkSlots+1), told: told}
	c.leaves.cache = c
	return c
}

func (c *cache) slot(n int32) *slot {
	chunk := &c.chunks[n/chunkSlots]
	if *chunk == nil {
		*chunk = new([chunkSlots]slot)
	}
	return &(*chunk)[n%chunkSlots]
}

// held returns the pages of node n that are there.
func (c *cache) held(n int32) int32 {
	if chunk := c.chunks[n/chunkSlots]; chunk != nil {
		return chunk[n%chunkSlots].held
	}
	return 0
}

// match returns how many of the first pages pages of path are held.
func (c *cache) match(path []int32, pages int32) (n int32) {
	for _, at := range path {
		need := c.plan.need(at, pages)
		if need <= 0 {
			break
		}
		held := min(c.held(at), need)
		n += held
		if held < c.plan.nodes[at].pages {
			break
		}
	}
	return n
}

// touch marks the first pages pages of path as used now.
func (c *cache) touch(path []int32, pages int32) {
	c.clock++
	for _, at := range path {
		if c.plan.nodes[at].start >= pages || c.held(at) == 0 {
			return
		}
		c.use(c.slot(at))
	}
}

func (c *cache) use(s *slot) {
	s.used = c.clock
	if s.heapAt > 0 {
		heap.Fix(&c.leaves, int(s.heapAt)-1)
	}
}

// insert makes the first pages pages of path held and used now.
func (c *cache) insert(path []int32, pages int32) {
	c.clock++
	for i, at := range path {
		need := c.plan.need(at, pages)
		if need <= 0 {
			break
		}
		s := c.slot(at)
		c.use(s)
		if s.held >= need {
			continue
		}
		if s.held == 0 && i > 0 {
			c.slot(path[i-1]).kids++
			c.settle(path[i-1])
		}
		c.pages += need - s.held
		if s.refs > 0 {
			c.locked += need - s.held
		}
		s.held = need
		c.settle(at)
		c.tell(at, need)
	}
}

func (c *cache) tell(n, held int32) {
	if c.told != nil {
		c.told(n, held)
	}
}

// lock keeps the nodes of path from being evicted, from the from-th one on to those that hold
// the first pages pages. It returns how many nodes of path are then locked.
func (c *cache) lock(path []int32, from int, pages int32) int {
	for ; from < len(path) && c.plan.nodes[path[from]].start < pages; from++ {
		s := c.slot(path[from])
		if s.refs++; s.refs == 1 {
			c.locked += s.held
		}
		c.settle(path[from])
	}
	return from
}

// unlock undoes lock for the first n nodes of path.
func (c *cache) unlock(path []int32, n int) {
	for _, at := range path[:n] {
		s := c.slot(at)
		if s.refs--; s.refs == 0 {
			c.locked -= s.held
		}
		c.settle(at)
	}
}

// evictable is how many pages could be freed.
func (c *cache) evictable() int32 { return c.pages - c.locked }

// evict frees want pages or more, or all that are not locked, and returns how many it freed.
func (c *cache) evict(want int32) (freed int32) {
	for freed < want && len(c.leaves.nodes) > 0 {
		n := c.leaves.nodes[0]
		s := c.slot(n)
		take := min(s.held, want-freed)
		if c.piece > 0 {
			take = min(s.held, c.piece)
		}
		s.held -= take
		freed += take
		c.pages -= take
		c.tell(n, s.held)
		if s.held > 0 {
			continue
		}
		c.settle(n)
		if parent := c.plan.nodes[n].parent; parent >= 0 {
			c.slot(parent).kids--
			c.settle(parent)
		}
	}
	return freed
}

// settle puts n among the leaves that may go or takes it out, as its state demands.
func (c *cache) settle(n int32) {
	s := c.slot(n)
	switch free := s.held > 0 && s.refs == 0 && s.kids == 0; {
	case free && s.heapAt == 0:
		heap.Push(&c.leaves, n)
	case !free && s.heapAt > 0:
		heap.Remove(&c.leaves, int(s.heapAt)-1)
	}
}

// leafHeap orders leaves by their last use, and those of one operation from the tail of the
// path.
type leafHeap struct {
	cache *cache
	nodes []int32
}

func (h *leafHeap) Len() int { return len(h.nodes) }

func (h *leafHeap) Less(i, j int) bool {
	a, b := h.cache.slot(h.nodes[i]), h.cache.slot(h.nodes[j])
	if a.used != b.used {
		return a.used < b.used
	}
	return h.nodes[i] < h.nodes[j]
}

func (h *leafHeap) Swap(i, j int) {
	h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i]
	h.cache.slot(h.nodes[i]).heapAt, h.cache.slot(h.nodes[j]).heapAt = int32(i)+1, int32(j)+1
}

func (h *leafHeap) Push(x any) {
	n, _ := x.(int32)
	h.nodes = append(h.nodes, n)
	h.cache.slot(n).heapAt = int32(len(h.nodes))
}

func (h *leafHeap) Pop() any {
	n := h.nodes[len(h.nodes)-1]
	h.nodes = h.nodes[:len(h.nodes)-1]
	h.cache.slot(n).heapAt = 0
	return n
}
