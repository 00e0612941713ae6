package policies

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// The benchmark of the articles on cluster-level prefix routing that this project began from: 4
// nodes, 50 prompts drawn with weight 1/(i+1), 10,000 requests. Their table gives one hit rate
// for each setting and no cache size; their published code never evicts. Hits depend on nothing
// more than on the size, so here it is a curve: each node keeps c prefixes.
const (
	articleNodes    = 4
	articlePrompts  = 50
	articleRequests = 10_000
)

// ArticleCapacities are the prefixes a node that the curve is drawn for; 50 is a cache that
// never evicts.
var ArticleCapacities = []int{3, 5, 7, 10, 13, 20, 30, 50}

// Published is a row of the articles' table and the policy that it speaks of.
type Published struct {
	Row    string  `json:"row"`
	Hits   float64 `json:"hits"`   // published
	Policy string  `json:"policy"` // of the curve
	// Needs is the capacity, in prefixes a node, at which the curve has that value; 0 where it
	// never does.
	Needs float64 `json:"needs"`
}

// ArticleCurve is the hit rate of one policy over [ArticleCapacities].
type ArticleCurve struct {
	Policy string    `json:"policy"`
	Hits   []float64 `json:"hits"`
}

// Articles is the result of the articles' benchmark.
type Articles struct {
	Capacities []int          `json:"capacities"`
	Curves     []ArticleCurve `json:"curves"`
	Published  []Published    `json:"published"`
	Exact      []Exact        `json:"exact"`
}

// The rows of a curve that are no policy.
const (
	rowLFU     = "kv, LFU eviction"
	rowOptimum = "offline optimum"
)

// RunArticles repeats the benchmark for every policy and every capacity, and the articles'
// calculations.
func RunArticles(ctx context.Context, seed uint64, progress func(done, total int)) (*Articles, error) {
	a := &Articles{Capacities: ArticleCapacities}
	names := append(policyNames(), rowLFU, rowOptimum)
	for i, name := range names {
		curve := ArticleCurve{Policy: name}
		for _, c := range a.Capacities {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			hits, err := articleHits(name, c, seed)
			if err != nil {
				return nil, err
			}
			curve.Hits = append(curve.Hits, hits)
		}
		a.Curves = append(a.Curves, curve)
		progress(i+1, len(names)+1)
	}
	for _, p := range []Published{
		{Row: "round robin", Hits: 0.23, Policy: "round-robin"},
		{Row: "least connections", Hits: 0.31, Policy: "least-load"},
		{Row: "KV-aware", Hits: 0.78, Policy: "staleness"},
		{Row: "engine only", Hits: 0.85, Policy: "round-robin"}, // each node has a cache, unrouted
		{Row: "KV-aware and engine", Hits: 0.92, Policy: "staleness"},
	} {
		p.Needs = a.needs(p)
		a.Published = append(a.Published, p)
	}
	var err error
	a.Exact, err = exactResults(ctx)
	progress(len(names)+1, len(names)+1)
	return a, err
}

// needs finds where a curve crosses a published value, by lines between its points.
func (a *Articles) needs(p Published) float64 {
	i := slices.IndexFunc(a.Curves, func(c ArticleCurve) bool { return c.Policy == p.Policy })
	hits := a.Curves[i].Hits
	for k := 1; k < len(hits); k++ {
		if hits[k-1] <= p.Hits && p.Hits <= hits[k] {
			share := ratio(p.Hits-hits[k-1], hits[k]-hits[k-1])
			return float64(a.Capacities[k-1]) + share*float64(a.Capacities[k]-a.Capacities[k-1])
		}
	}
	return 0
}

// prefixes is a node's cache, as a list with the next to be evicted first.
type prefixes struct {
	capacity int
	held     []int
	uses     map[int]int // for LFU
	lfu      bool
}

func (c *prefixes) has(p int) bool { return slices.Contains(c.held, p) }

// use makes p the latest, evicting if needed.
func (c *prefixes) use(p int) {
	c.uses[p]++
	if i := slices.Index(c.held, p); i >= 0 {
		c.held = append(slices.Delete(c.held, i, i+1), p)
		return
	}
	if len(c.held) == c.capacity {
		victim := 0
		for i, h := range c.held {
			if c.lfu && c.uses[h] < c.uses[c.held[victim]] {
				victim = i
			}
		}
		c.held = slices.Delete(c.held, victim, victim+1)
	}
	c.held = append(c.held, p)
}

// articleNode is one node: its cache and its load.
type articleNode struct {
	prefixes
	ends    []float64 // of requests in flight, seconds
	backlog policy.Backlog
}

// Service of the articles' nodes: prompts are computed at 16,000 tokens a second and an
// answer's token takes 20 ms; 10 arrivals a second keep some 15 requests in flight on 4 nodes,
// so that loads differ and least connections has a choice.
const (
	articleRate    = 16_000
	articleToken   = 0.020
	articleArrival = 10.0
)

// articleHits is the share of requests that find their prefix.
func articleHits(name string, capacity int, seed uint64) (float64, error) {
	rnd := rand.New(rand.NewPCG(seed, 50))
	g := &generator{Rand: rnd}
	lengths, draw := make([]int, articlePrompts), g.zipf(articlePrompts)
	for i := range lengths {
		lengths[i] = g.between(1000, 4000)
	}
	asked := make([]int, articleRequests)
	for i := range asked {
		asked[i] = draw()
	}
	if name == rowOptimum {
		return optimum(asked, articleNodes*capacity), nil
	}
	lfu := name == rowLFU
	if lfu {
		name = "kv"
	}
	p, err := newPolicy(name, policy.Defaults)
	if err != nil {
		return 0, err
	}
	nodes := make([]articleNode, articleNodes)
	for i := range nodes {
		nodes[i].prefixes = prefixes{capacity: capacity, uses: map[int]int{}, lfu: lfu}
	}
	hits := 0
	candidates := make([]policy.Candidate, len(nodes))
	for i, prompt := range asked {
		now := g.after(articleArrival).Seconds()
		for k := range nodes {
			candidates[k] = nodes[k].candidate(uint64(k)+1, prompt, lengths[prompt], now)
		}
		req := policy.Request{Tokens: lengths[prompt] + 1, Exact: true, Turn: uint64(i), Seed: mix(seed ^ mix(uint64(i)))}
		choice := pickArticle(p, req, mix(uint64(prompt)+1), candidates)
		if nodes[choice.Index].take(prompt, lengths[prompt], now, float64(g.between(100, 500))) {
			hits++
		}
	}
	return float64(hits) / articleRequests, nil
}

// pickArticle asks the policy for a prompt; prefix is the hash of its shared part.
func pickArticle(p policy.Policy, req policy.Request, prefix uint64, candidates []policy.Candidate) policy.Choice {
	if b, ok := p.(baseline); ok {
		return b.pickByPrefix(prefix, req, candidates)
	}
	return p.Pick(req, candidates)
}

func (n *articleNode) candidate(id uint64, prompt, tokens int, now float64) policy.Candidate {
	n.ends = slices.DeleteFunc(n.ends, func(end float64) bool { return end <= now })
	c := policy.Candidate{ID: id, InFlight: int64(len(n.ends)), Rate: articleRate, Pending: int64(n.backlog.Tokens(now, articleRate))}
	c.Tree = int64(len(n.held))
	if n.has(prompt) {
		c.Cached = tokens
	}
	return c
}

// take serves a request and reports whether its prefix was there.
func (n *articleNode) take(prompt, tokens int, now, answer float64) (hit bool) {
	wait := n.backlog.Tokens(now, articleRate) / articleRate
	hit = n.has(prompt)
	if !hit {
		// The node counts its own requests; only time takes them off again.
		n.backlog.Reported(now, wait*articleRate+float64(tokens), 0)
		wait += float64(tokens) / articleRate
	}
	n.ends = append(n.ends, now+wait+answer*articleToken)
	n.use(prompt)
	return hit
}

// optimum is Belady's rule on one cache of all nodes' room: it evicts the prompt whose next
// request comes last, or does not keep a prompt with a later next request.
func optimum(asked []int, capacity int) float64 {
	next := make([]int, len(asked))
	last := map[int]int{}
	for i := len(asked) - 1; i >= 0; i-- {
		next[i] = math.MaxInt
		if at, ok := last[asked[i]]; ok {
			next[i] = at
		}
		last[asked[i]] = i
	}
	held := map[int]int{} // prompt to when it is next asked for
	hits := 0
	for i, p := range asked {
		if _, ok := held[p]; ok {
			hits++
		} else if len(held) == capacity {
			victim, far := p, next[i]
			for h, at := range held {
				if at > far || (at == far && h > victim && victim != p) {
					victim, far = h, at
				}
			}
			if victim == p {
				continue
			}
			delete(held, victim)
		}
		held[p] = next[i]
	}
	return float64(hits) / float64(len(asked))
}

// Exact is one of the articles' calculations, as they give it, as calculated, and as simulated.
type Exact struct {
	What      string   `json:"what"`
	Published string   `json:"published"`
	Computed  float64  `json:"computed"`
	Simulated *float64 `json:"simulated,omitempty"` // nil where there is nothing to simulate
	Unit      string   `json:"unit"`
	Note      string   `json:"note"`
}

// spaced makes n requests far enough apart that each is answered before the next comes.
func spaced(n int, prompt func(i int) []Segment) (out []Request) {
	for i := range n {
		out = append(out, Request{At: time.Duration(i) * 10 * time.Second, Prompt: prompt(i), Output: 1})
	}
	return out
}

// played simulates a trace on nodes with room for all pages, in pages of one token, so that
// only differing tokens are computed.
func played(ctx context.Context, trace []Request, workers int, name string) (*run, error) {
	s, err := newStudy(trace, Config{Workers: workers, PageSize: 1, CacheTokens: 1 << 22, Seed: 1}, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot play the articles' example: %w", err)
	}
	return simulate(ctx, s.plan, s.cfg, name, func(int) {})
}
