package policies

import (
	"cmp"
	"slices"
)

// A plan is a trace prepared for simulation. All prompts, with their answers, are laid into one
// path-compressed tree of whole pages that is built once and never changes: a cache is then a
// number of pages held for each of its nodes, and a look-up is a walk along a request's path,
// however long the prompt.
type plan struct {
	page  int
	nodes []node
	jobs  []job // by arrival

	through []int32 // requests that go through each node
	course  *course // nil: an open loop
}

// node is a run of pages that no two requests of the trace leave at different places.
type node struct {
	parent int32 // -1: the root
	pages  int32
	start  int32 // pages before the node
	req    int32 // a job with these pages
}

// job is a request as workers see it.
type job struct {
	at       clock
	input    int      // prompt tokens
	output   int      // tokens of the answer
	pages    int32    // whole pages that are cached when it has ended
	path     []int32  // nodes from the root; together at least pages long
	prefixes []uint64 // hashes of the first prefixTokens tokens, twice as many and so on
	end      int32    // last node of path
	session  uint64   // 0: none
	branch   uint64   // an agent of the session, or a beginning that several requests share
}

// prefixTokens is the shortest beginning of a prompt by which dualMap knows its family.
const prefixTokens = 256

// newPlan lays the requests out. Arrivals are divided by rate: 2 is twice as many a second.
func newPlan(trace []Request, page int, rate float64, spread bool) *plan {
	b := &builder{plan: plan{page: page}, children: make(map[edge]int32), trace: make([][]Segment, len(trace))}
	order := arrivalOrder(trace)
	b.jobs = make([]job, len(trace))
	for i, from := range order {
		r := &trace[from]
		j := &b.jobs[i]
		j.at, j.output, j.session = clock(float64(r.At)/rate)*nanosecond, max(r.Output, 1), r.Session
		j.input = r.Input()
		j.pages = int32((j.input + j.output - 1) / page)
		answer := Segment{ID: r.Answer, Tokens: j.output}
		if answer.ID == 0 {
			answer.ID = answerBit | uint64(i)
		}
		b.trace[i] = append(slices.Clip(slices.Clone(r.Prompt)), answer)
		j.prefixes = append(j.prefixes, hashRange(b.trace[i], 0, min(prefixTokens, j.input)))
		for n := 2 * prefixTokens; n <= j.input; n *= 2 {
			j.prefixes = append(j.prefixes, hashRange(b.trace[i], 0, n))
		}
		b.insert(int32(i))
	}
	if spread {
		b.spread()
	}
	for i := range b.jobs {
		b.jobs[i].path = b.pathTo(b.jobs[i].end)
	}
	b.findBranches()
	b.through = make([]int32, len(b.nodes))
	for i := range b.jobs {
		for _, n := range b.jobs[i].path {
			b.through[n]++
		}
	}
	return &b.plan
}

// arrivalOrder lists the requests by time, equal times as they stand.
func arrivalOrder(trace []Request) []int {
	order := make([]int, len(trace))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, c int) int { return cmp.Compare(trace[a].At, trace[c].At) })
	return order
}

// spread moves the requests of one instant evenly over the time until the next.
func (p *plan) spread() {
	for from := 0; from < len(p.jobs); {
		to := from
		for to < len(p.jobs) && p.jobs[to].at == p.jobs[from].at {
			to++
		}
		if to == len(p.jobs) {
			return
		}
		gap := p.jobs[to].at - p.jobs[from].at
		for i := from; i < to; i++ {
			p.jobs[i].at += gap * clock(i-from) / clock(to-from)
		}
		from = to
	}
}

// findBranches gives each request the branch that it goes on with, as package turns finds it: that
// of the latest request of its session with the longest common beginning, if that is at least half
// of that request's prompt.
func (p *plan) findBranches() {
	latest, branches := make([]int32, len(p.nodes)), uint64(0)
	for i := range p.jobs {
		j := &p.jobs[i]
		last, same := int32(-1), int32(0)
		for _, n := range j.path {
			if latest[n] == 0 {
				break
			}
			last, same = latest[n]-1, p.nodes[n].start+p.need(n, int32(j.input/p.page))
		}
		if last >= 0 && p.jobs[last].session == j.session && 2*int(same)*p.page >= p.jobs[last].input {
			j.branch = p.jobs[last].branch
		} else {
			branches++
			j.branch = branches
		}
		for _, n := range j.path {
			latest[n] = int32(i) + 1
		}
	}
}

// need returns how many of node n's pages belong to the first pages pages of a path.
func (p *plan) need(n, pages int32) int32 {
	return min(p.nodes[n].pages, pages-p.nodes[n].start)
}

// builder makes the tree of a plan.
type builder struct {
	plan
	trace    [][]Segment    // of each job: its prompt and its answer
	children map[edge]int32 // by the first page below a node
}

type edge struct {
	parent int32
	first  uint64 // hash of the child's first page
}

// insert adds the pages of job i.
func (b *builder) insert(i int32) {
	seq, total := b.trace[i], b.jobs[i].pages
	at, done := int32(-1), int32(0)
	for done < total {
		key := edge{at, b.firstPage(seq, done)}
		child, ok := b.children[key]
		if !ok {
			child = int32(len(b.nodes))
			b.nodes = append(b.nodes, node{parent: at, pages: total - done, start: done, req: i})
			b.children[key] = child
			at = child
			break
		}
		n := b.nodes[child]
		limit := min(n.pages, total-done)
		same := int32(common(seq, b.trace[n.req], int(done)*b.page, int(limit)*b.page) / b.page)
		if same < n.pages {
			child = b.split(child, same, key)
		}
		at, done = child, done+same
	}
	b.jobs[i].end = at
}

// split cuts the first pages of a node off into a node of their own, above it, and returns that
// one.
func (b *builder) split(n, pages int32, key edge) int32 {
	lower := &b.nodes[n]
	upper := int32(len(b.nodes))
	head := node{parent: lower.parent, pages: pages, start: lower.start, req: lower.req}
	lower.parent, lower.start, lower.pages = upper, lower.start+pages, lower.pages-pages
	first := b.firstPage(b.trace[lower.req], lower.start)
	b.nodes = append(b.nodes, head)
	b.children[key] = upper
	b.children[edge{upper, first}] = n
	return upper
}

func (b *builder) firstPage(seq []Segment, page int32) uint64 {
	return hashRange(seq, int(page)*b.page, b.page)
}

// pathTo returns the nodes from the root to n.
func (b *builder) pathTo(n int32) []int32 {
	depth := 0
	for at := n; at >= 0; at = b.nodes[at].parent {
		depth++
	}
	path := make([]int32, depth)
	for at := n; at >= 0; at = b.nodes[at].parent {
		depth--
		path[depth] = at
	}
	return path
}

// seek returns the segment in which token at lies, and its offset there.
func seek(seq []Segment, at int) (segment, offset int) {
	for segment < len(seq) && at >= seq[segment].Tokens {
		at -= seq[segment].Tokens
		segment++
	}
	return segment, at
}

// common returns how many of up to limit tokens from token at on are equal in a and c.
func common(a, c []Segment, at, limit int) (n int) {
	i, x := seek(a, at)
	j, y := seek(c, at)
	for n < limit && i < len(a) && j < len(c) && a[i].ID == c[j].ID && x == y {
		step := min(a[i].Tokens-x, c[j].Tokens-y)
		n, x, y = n+step, x+step, y+step
		if x == a[i].Tokens {
			i, x = i+1, 0
		}
		if y == c[j].Tokens {
			j, y = j+1, 0
		}
	}
	return min(n, limit)
}

// hashRange hashes the names of n tokens from token at on.
func hashRange(seq []Segment, at, n int) uint64 {
	i, x := seek(seq, at)
	h := uint64(n)
	for n > 0 && i < len(seq) {
		step := min(n, seq[i].Tokens-x)
		h = mix(mix(h^seq[i].ID)+uint64(x)) + uint64(step)
		n, i, x = n-step, i+1, 0
	}
	return mix(h)
}

// mix spreads a number over 64 bits (splitmix64's finalizer).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
