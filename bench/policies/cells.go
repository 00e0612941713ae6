package policies

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Cell is a scene at one load, with every policy on it.
type Cell struct {
	Scene string  `json:"scene"`
	Kind  string  `json:"kind"`
	Share float64 `json:"share"` // of the load at which the best policy collapses
	Load  float64 `json:"load"`  // users, requests a second, or a multiple of the trace's rate
	Pool  int     `json:"pool"`  // tokens of a worker
	// Ratios of kv's TTFT to the lowest of all other policies but the all-knowing one.
	Mean     float64   `json:"mean"`
	P99      float64   `json:"p99"`
	BestMean string    `json:"best_mean"`
	BestP99  string    `json:"best_p99"`
	Results  []*Result `json:"results"`
}

// Worst is the larger of the ratios.
func (c *Cell) Worst() float64 { return max(c.Mean, c.P99) }

// Grid runs scenes.
type Grid struct {
	Shares   []float64 // of the load at which the best policy collapses
	Policies []string  // kv is among them, and Greedy may be
	Seed     uint64
	Runs     int // of each cell, with a seed each; their requests are taken together
	Progress func(text string)

	mu    sync.Mutex
	roomy map[roomyScene]float64 // guarded by mu: load at which workers with room for all collapse
}

// roomyScene is the part of a scene on which that load depends.
type roomyScene struct {
	traffic traffic
	prefill int
	speeds  string
}

// candidatesForBest are the policies that the load of collapse is searched with.
var candidatesForBest = []string{"kv", "lmetric", "staleness", "approx", "sticky-sessions"}

// Scene runs a scene at all shares.
func (g *Grid) Scene(ctx context.Context, s *Scene) ([]*Cell, error) {
	p := &place{Grid: g, Scene: s, cfg: s.Config, ctx: ctx}
	if err := p.fit(); err != nil {
		return nil, fmt.Errorf("cannot size %q: %w", s.Name, err)
	}
	top, err := p.collapse()
	if err != nil {
		return nil, fmt.Errorf("cannot load %q: %w", s.Name, err)
	}
	var cells []*Cell
	for _, share := range g.Shares {
		load := share * top
		if s.traffic.whole() {
			load = max(1, math.Round(load))
		}
		c := &Cell{Scene: s.Name, Kind: s.Kind, Share: share, Load: load, Pool: p.cfg.CacheTokens}
		if c.Results, err = p.at(load, g.Policies, max(1, g.Runs)); err != nil {
			return cells, fmt.Errorf("cannot run %q at %v: %w", s.Name, load, err)
		}
		c.compare()
		cells = append(cells, c)
		g.Progress(fmt.Sprintf("%s at %.2f: mean %.2f x %s, p99 %.2f x %s", s.Name, share, c.Mean, c.BestMean, c.P99, c.BestP99))
	}
	return cells, nil
}

// compare fills in kv against the others.
func (c *Cell) compare() {
	i := slices.IndexFunc(c.Results, func(r *Result) bool { return r.Policy == "kv" })
	best := func(value func(*Result) time.Duration) (ratio float64, name string) {
		var least *Result
		for _, r := range c.Results {
			if r.Policy != "kv" && r.Policy != Greedy && (least == nil || value(r) < value(least)) {
				least = r
			}
		}
		if i < 0 || least == nil || value(least) == 0 {
			return 0, ""
		}
		return float64(value(c.Results[i])) / float64(value(least)), least.Policy
	}
	c.Mean, c.BestMean = best(func(r *Result) time.Duration { return r.TTFT.Mean })
	c.P99, c.BestP99 = best(func(r *Result) time.Duration { return r.TTFT.P99 })
}

// place is a scene that is being run.
type place struct {
	*Grid
	*Scene
	cfg Config
	ctx context.Context //nolint:containedctx // Lives as long as the call of Grid.Scene.
}

// at runs policies at a load.
func (p *place) at(load float64, names []string, runs int) ([]*Result, error) {
	byName := make([][]*Result, len(names))
	for run := range runs {
		seed := p.Seed*1000 + uint64(run)
		plan, err := p.traffic.lay(load, seed, &p.cfg)
		if err != nil {
			return nil, err
		}
		cfg := p.cfg
		cfg.Seed = seed
		for i, name := range names {
			s, err := simulate(p.ctx, plan, cfg, name, func(int) {})
			if err != nil {
				return nil, err
			}
			byName[i] = append(byName[i], s.result())
		}
	}
	out := make([]*Result, len(names))
	for i, some := range byName {
		out[i] = together(some)
	}
	return out, nil
}

// fit sizes the pools: a share of the working set at the load at which workers with room for all
// collapse.
func (p *place) fit() error {
	load, err := p.roomyLoad()
	if err != nil {
		return err
	}
	plan, err := p.traffic.lay(load, p.Seed*1000, &p.cfg)
	if err != nil {
		return err
	}
	longest := 0
	for i := range plan.jobs {
		longest = max(longest, plan.jobs[i].input+plan.jobs[i].output)
	}
	pool := p.pool * plan.workingSet() / float64(p.prefillers())
	// Twice the longest request, or it may be that nothing else runs beside it.
	p.cfg.CacheTokens = min(max(int(pool), 2*longest), mostPool)
	p.cfg.HostTokens = min(int(p.host*float64(p.cfg.CacheTokens)), mostPool)
	return nil
}

// roomyLoad is the load at which one router and workers with room for all collapse.
func (p *place) roomyLoad() (float64, error) {
	key := roomyScene{p.traffic, p.cfg.Prefill, fmt.Sprint(p.cfg.Speeds)}
	p.mu.Lock()
	load, ok := p.roomy[key]
	p.mu.Unlock()
	if ok {
		return load, nil
	}
	roomy := *p
	roomy.cfg.CacheTokens, roomy.cfg.HostTokens, roomy.cfg.Routers = mostPool/4, 0, 1
	load, err := roomy.collapse()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roomy == nil {
		p.roomy = map[roomyScene]float64{}
	}
	p.roomy[key] = load
	return load, err
}

// prefillers is the number of workers with caches that count.
func (p *place) prefillers() int {
	if p.cfg.Prefill > 0 {
		return p.cfg.Prefill
	}
	return p.cfg.Workers
}

// workingSet is the tokens that are needed again: of users, the prompts of as many sessions as
// there are users; else all pages that more than one request has.
func (p *plan) workingSet() float64 {
	if p.course != nil {
		sum := 0.0
		for i := range p.jobs {
			sum += float64(p.jobs[i].input + p.jobs[i].output)
		}
		return sum / float64(len(p.jobs)) * float64(p.course.N)
	}
	pages := 0
	for i := range p.nodes {
		if p.through[i] > 1 {
			pages += int(p.nodes[i].pages)
		}
	}
	return float64(pages * p.page)
}

// collapse finds the load at which the best policy's mean TTFT is 2 s and twice that of a light
// load, within 3 %.
func (p *place) collapse() (float64, error) {
	mean := func(load float64) (float64, error) {
		results, err := p.at(load, p.searchers(), 1)
		if err != nil {
			return 0, err
		}
		return slices.MinFunc(results, func(a, b *Result) int { return cmp.Compare(a.TTFT.Mean, b.TTFT.Mean) }).TTFT.Mean.Seconds(), nil
	}
	low := p.traffic.light()
	base, err := mean(low)
	if err != nil {
		return 0, err
	}
	limit, high := 2+2*base, low
	for got := base; got < limit; {
		if low, high = high, high*2; high > 1e5 {
			return 0, fmt.Errorf("%w: no load is too much", ErrConfig)
		}
		if got, err = mean(high); err != nil {
			return 0, err
		}
	}
	for high > low*1.03 && (!p.traffic.whole() || high > low+1) {
		mid := math.Sqrt(low * high)
		if p.traffic.whole() {
			mid = math.Round(mid)
		}
		if mid <= low || mid >= high {
			break
		}
		got, err := mean(mid)
		if err != nil {
			return 0, err
		}
		if got < limit {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}

// searchers are the policies of the grid that search for the best one's collapse.
func (p *place) searchers() (some []string) {
	for _, name := range p.Policies {
		if slices.Contains(candidatesForBest, name) {
			some = append(some, name)
		}
	}
	return some
}

// together takes the requests of several runs as one.
func together(runs []*Result) *Result {
	if len(runs) == 1 {
		return runs[0]
	}
	r := *runs[0]
	r.TTFTs, r.tpots, r.gaps = nil, nil, gaps{}
	r.TokenCounts, r.Requests, r.Refused = TokenCounts{}, 0, 0
	for _, one := range runs {
		r.Requests += one.Requests
		r.Refused += one.Refused
		r.PromptTokens += one.PromptTokens
		r.HitTokens += one.HitTokens
		r.OutputTokens += one.OutputTokens
		r.TTFTs = append(r.TTFTs, one.TTFTs...)
		r.tpots = append(r.tpots, one.tpots...)
		r.gaps.Merge(&one.gaps.Histogram)
	}
	r.TTFT, r.TPOT, r.ITL = trace.TimesOf(r.TTFTs), trace.TimesOf(r.tpots), r.gaps.times()
	r.Hits = ratio(float64(r.HitTokens), float64(r.PromptTokens))
	return &r
}
