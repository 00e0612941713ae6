package selfcheck

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// history holds the last requests, oldest first. Prompts are paths in a tree of blocks, so that the
// 90,000 tokens that one turn of a session shares with the turn before are kept once: a turn takes
// some 700 bytes. It is not safe for concurrent use.
type history struct {
	requests []request // a ring
	first, n int
	added    uint64 // ever

	nodes []node
	free  []int32 // of nodes
	edges map[edge]int32
	roots map[domain]int32

	bytes, maxBytes int
	maxAge          time.Duration
}

// request is one answered request.
type request struct {
	at         int64 // unix nanoseconds of the arrival
	ttft, took time.Duration
	input      int32 // tokens
	output     int32 // tokens; 0: unknown
	cached     int32 // prompt tokens found in a cache, or expected there; -1: unknown
	end        int32 // node of the prompt's last block
	known      bool  // the prompt's tokens; else end is the root
	streamed   bool  // ttft is the time to the first token
}

// node is a run of blocks. Roots have none.
type node struct {
	parent int32 // -1: a root, or free
	refs   int32 // children, and requests that end here
	ids    []uint64
	domain domain
}

// edge leads from a node to a child by the child's first block.
type edge struct {
	parent int32
	first  uint64
}

// domain is a model and the tokens of a block.
type domain struct {
	model string
	block int
}

const (
	requestBytes = 56
	nodeBytes    = 64 + 48 // with its edge
	idBytes      = 8
)

func newHistory(maxRequests, maxBytes int, maxAge time.Duration) *history {
	return &history{
		requests: make([]request, maxRequests), maxBytes: maxBytes, maxAge: maxAge,
		edges: make(map[edge]int32), roots: make(map[domain]int32),
	}
}

// at returns the i-th oldest request.
func (h *history) at(i int) *request { return &h.requests[(h.first+i)%len(h.requests)] }

// add keeps an entry of the access log.
func (h *history) add(e *accesslog.Entry) {
	r := request{
		at: e.Arrived.UnixNano(), ttft: e.TTFT, took: e.Took, input: int32(e.Input), output: int32(e.Output),
		cached: int32(min(e.Cached, e.Input)), known: len(e.IDs) > 0, streamed: e.Streamed,
	}
	if e.Cached < 0 && r.known {
		r.cached = int32(min(e.Expected, e.Input))
	}
	r.end = h.insert(h.root(domain{e.Model, e.Block}), e.IDs)
	if h.n == len(h.requests) {
		h.drop()
	}
	*h.at(h.n) = r
	h.n++
	h.added++
	h.bytes += requestBytes
	h.trim(r.at)
}

// trim drops the oldest requests beyond the bounds.
func (h *history) trim(now int64) {
	for h.n > 0 && (h.bytes > h.maxBytes || now-h.at(0).at > int64(h.maxAge)) {
		h.drop()
	}
}

func (h *history) drop() {
	h.release(h.at(0).end)
	h.first = (h.first + 1) % len(h.requests)
	h.n--
	h.bytes -= requestBytes
}

// clear forgets all requests.
func (h *history) clear() {
	for h.n > 0 {
		h.drop()
	}
}

func (h *history) root(d domain) int32 {
	n, ok := h.roots[d]
	if !ok {
		n = h.newNode(node{parent: -1, domain: d})
		h.roots[d] = n
	}
	return n
}

func (h *history) newNode(n node) int32 {
	h.bytes += nodeBytes + idBytes*len(n.ids)
	if k := len(h.free); k > 0 {
		i := h.free[k-1]
		h.free = h.free[:k-1]
		h.nodes[i] = n
		return i
	}
	h.nodes = append(h.nodes, n)
	return int32(len(h.nodes) - 1)
}

// insert adds a reference to the end of a path, which it makes where it is new.
func (h *history) insert(at int32, ids []uint64) int32 {
	d := h.nodes[at].domain
	for len(ids) > 0 {
		child, ok := h.edges[edge{at, ids[0]}]
		if !ok {
			child = h.newNode(node{parent: at, ids: slices.Clone(ids), domain: d})
			h.edges[edge{at, ids[0]}] = child
			h.nodes[at].refs++
			at = child
			break
		}
		same := common(h.nodes[child].ids, ids)
		if same < len(h.nodes[child].ids) {
			child = h.split(child, same)
		}
		at, ids = child, ids[same:]
	}
	h.nodes[at].refs++
	return at
}

func common(a, b []uint64) (n int) {
	for most := min(len(a), len(b)); n < most && a[n] == b[n]; {
		n++
	}
	return n
}

// split moves the first blocks of a node into a new one above it, and returns that one. Both get
// memory of their own: the lower one's is given back before the upper one's.
func (h *history) split(lower int32, blocks int) int32 {
	ids, parent, d := h.nodes[lower].ids, h.nodes[lower].parent, h.nodes[lower].domain
	upper := h.newNode(node{parent: parent, refs: 1, ids: slices.Clone(ids[:blocks]), domain: d})
	h.nodes[lower].parent, h.nodes[lower].ids = upper, slices.Clone(ids[blocks:])
	h.bytes -= idBytes * blocks
	h.edges[edge{parent, ids[0]}] = upper
	h.edges[edge{upper, ids[blocks]}] = lower
	return upper
}

// release takes a reference back, and frees the nodes that have none left.
func (h *history) release(at int32) {
	for {
		n := &h.nodes[at]
		if n.refs--; n.refs > 0 {
			return
		}
		parent := n.parent
		if parent < 0 {
			delete(h.roots, n.domain)
		} else {
			delete(h.edges, edge{parent, n.ids[0]})
		}
		h.bytes -= nodeBytes + idBytes*len(n.ids)
		*n = node{parent: -1}
		h.free = append(h.free, at)
		if parent < 0 {
			return
		}
		at = parent
	}
}
