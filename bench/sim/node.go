package sim

// node is one edge of the radix tree and the subtree below it: one or more whole pages, as in
// SGLang's path-compressed tree. A root has no pages.
type node struct {
	parent   *node
	children map[string]*node // by the bytes of the child's first page
	tokens   []uint32         // page × len(digests)
	digests  []digest
	refs     int    // Running requests with a prompt through this node.
	used     uint64 // cache.clock of the last access
	heapAt   int    // Index in the eviction heap, -1 if it cannot be evicted.
	domain   domain
}

func (n *node) isRoot() bool    { return n.parent == nil }
func (n *node) pages() int      { return len(n.digests) }
func (n *node) evictable() bool { return !n.isRoot() && n.refs == 0 && len(n.children) == 0 }

// common returns the number of equal leading tokens, in whole pages.
func (n *node) common(tokens []uint32, page int) int {
	m := min(len(n.tokens), len(tokens))
	i := 0
	for i < m && n.tokens[i] == tokens[i] {
		i++
	}
	return i - i%page
}

// split cuts n after its first pages: a new node takes its place and the head. Both halves get
// memory of their own, so that evicting the tail of a long prompt frees it while a short shared
// head stays.
func (n *node) split(pages, page int, key func([]uint32) string) *node {
	cut := pages * page
	head := &node{
		parent:  n.parent,
		tokens:  append([]uint32(nil), n.tokens[:cut]...),
		digests: append([]digest(nil), n.digests[:pages]...),
		refs:    n.refs,
		used:    n.used,
		heapAt:  -1,
		domain:  n.domain,
	}
	n.parent.children[key(head.tokens)] = head
	n.parent = head
	n.tokens = append([]uint32(nil), n.tokens[cut:]...)
	n.digests = append([]digest(nil), n.digests[pages:]...)
	head.children = map[string]*node{key(n.tokens): n}
	return head
}

// leafHeap orders the nodes that may be evicted, least recently used first.
type leafHeap []*node

func (h leafHeap) Len() int           { return len(h) }
func (h leafHeap) Less(i, j int) bool { return h[i].used < h[j].used }

func (h leafHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push implements heap.Interface.
func (h *leafHeap) Push(x any) {
	n, _ := x.(*node)
	n.heapAt = len(*h)
	*h = append(*h, n)
}

// Pop implements heap.Interface.
func (h *leafHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	n.heapAt = -1
	return n
}
