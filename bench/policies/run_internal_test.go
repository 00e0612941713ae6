package policies

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// tiny makes a small trace with much in common: a few prefixes of odd lengths, chats that go
// on, prompts that repeat.
func tiny(seed uint64, n int) []Request {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	shared := g.segments(3, 1, 40)
	var chats []chat
	var out []Request
	for range n {
		at := time.Duration(g.IntN(40)) * 50 * time.Millisecond * time.Duration(1+g.IntN(3))
		switch {
		case len(chats) > 0 && g.IntN(2) == 0:
			c := &chats[g.IntN(len(chats))]
			out = append(out, g.turn(c, at, 12, 1+g.IntN(15)))
		case g.IntN(3) == 0:
			out = append(out, Request{At: at, Prompt: []Segment{shared[g.IntN(3)]}, Output: 1 + g.IntN(3)})
		default:
			chats = append(chats, chat{prompt: []Segment{shared[g.IntN(3)]}})
			out = append(out, g.turn(&chats[len(chats)-1], at, 12, 1+g.IntN(15)))
		}
	}
	return out
}

// tinyConfig has workers so small that all of their limits are met.
func tinyConfig(seed uint64) Config {
	return Config{
		Workers: 2, PageSize: 4, CacheTokens: 480, Seed: seed,
		Service: Service{PrefillTokensPerSecond: 700, ChunkedPrefill: 24, MaxRunning: 3},
	}.withDefaults()
}

// naively replays worker w's requests on the naive worker, and compares every request.
func naively(t *testing.T, s *run, trace [][]uint64, unit map[string]string, w int) {
	t.Helper()
	n := &naive{
		page: s.page, pool: s.cfg.CacheTokens / s.page, costs: s.workers[w].costs, pages: map[string]*naivePage{},
		unit: unit, used: map[string]int{}, refs: map[string]int{},
	}
	var tasks []*naiveTask
	var ids []int
	order := make([]int, len(s.tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.tasks[a].sent, s.tasks[b].sent) })
	for _, i := range order {
		if f := &s.tasks[i]; f.job != nil && int(f.worker) == w {
			tasks = append(tasks, &naiveTask{at: f.sent, tokens: trace[i], input: f.input, output: f.output})
			ids = append(ids, i)
		}
	}
	n.serve(tasks)
	for k, i := range ids {
		f, slow := &s.tasks[i], tasks[k]
		require.Equal(t, [3]clock{clock(slow.cached), slow.first, slow.ended}, [3]clock{clock(f.cached), f.first, f.ended}, "request %d", i)
	}
}

// spell writes the tokens of every job out.
func spell(p *plan, trace []Request) [][]uint64 {
	sorted := newPlan(trace, p.page, 1, false)
	b := make([][]uint64, len(sorted.jobs))
	order := arrivalOrder(trace)
	for i, from := range order {
		r := trace[from]
		answer := Segment{ID: r.Answer, Tokens: r.Output}
		if answer.ID == 0 {
			answer.ID = answerBit | uint64(i)
		}
		for _, s := range append(append([]Segment(nil), r.Prompt...), answer) {
			for k := range s.Tokens {
				b[i] = append(b[i], mix(s.ID)+uint64(k))
			}
		}
	}
	return b
}

func TestSimulationAgainstNaive(t *testing.T) {
	for seed := range uint64(24) {
		trace := tiny(seed, 30+int(seed))
		p := newPlan(trace, 4, 1, false)
		spelled, ends := spell(p, trace), make([]int, len(p.jobs))
		for i := range ends {
			ends[i] = int(p.jobs[i].pages)
		}
		unit := units(4, spelled, ends)
		for _, name := range []string{"round-robin", "kv", Greedy} {
			s, err := simulate(t.Context(), p, tinyConfig(seed), name, func(int) {})
			require.NoError(t, err)
			for w := range s.workers {
				naively(t, s, spelled, unit, w)
			}
		}
	}
}

// sound checks the invariants of a worker.
func sound(t *testing.T, w *worker) {
	t.Helper()
	require.GreaterOrEqual(t, w.free(), int32(0), "the pool is over-full")
	require.GreaterOrEqual(t, w.taken, int32(0))
	require.LessOrEqual(t, len(w.running), w.costs.running)
	pages, locked := int32(0), int32(0)
	for n := range w.plan.nodes {
		s, node := w.cache.slot(int32(n)), &w.plan.nodes[n]
		pages += s.held
		if s.refs > 0 {
			locked += s.held
		}
		free := s.held > 0 && s.refs == 0 && s.kids == 0
		if s.held > node.pages || free != (s.heapAt > 0) {
			t.Fatalf("node %d of %d pages is %+v", n, node.pages, *s)
		}
		if s.held > 0 && node.parent >= 0 && w.cache.held(node.parent) < w.plan.nodes[node.parent].pages {
			t.Fatalf("node %d is held without all of its parent", n)
		}
	}
	require.Equal(t, pages, w.cache.pages)
	require.Equal(t, locked, w.cache.locked)
	owned := int32(0)
	for _, list := range [][]*task{w.running, {w.chunked}} {
		for _, task := range list {
			if task != nil {
				owned += task.owned
			}
		}
	}
	if w.role != decodes {
		require.LessOrEqual(t, owned, w.taken)
	}
}

// Every request ends exactly once, pools are never over-full, and no page is locked at the end:
// with any policy, number of replicas and late events, with and without prefill workers.
func TestConservation(t *testing.T) {
	variants := map[string]func(*Config){
		"plain":    func(*Config) {},
		"replicas": func(c *Config) { c.Routers, c.Share = 3, ShareGossip },
		"late":     func(c *Config) { c.EventDelay = 40 * time.Millisecond },
		"host":     func(c *Config) { c.HostTokens = 600 },
		"pools":    func(c *Config) { c.Workers, c.Prefill = 3, 1 },
		"speeds":   func(c *Config) { c.Speeds = []float64{2, 0.3} },
		"approx":   func(c *Config) { c.Approx, c.TreeTokens = true, 200 },
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			for i, policyName := range Names() {
				cfg := tinyConfig(uint64(i))
				change(&cfg)
				require.NoError(t, cfg.check())
				conserve(t, cfg, policyName)
			}
		})
	}
}

func conserve(t *testing.T, cfg Config, name string) {
	t.Helper()
	trace := tiny(cfg.Seed, 60)
	trace = append(trace, Request{At: time.Second, Prompt: []Segment{{ID: 1 << 40, Tokens: 4000}}, Output: 5}) // fits nowhere
	s, err := newRun(newPlan(trace, cfg.PageSize, 1, false), cfg, name, func(int) {})
	require.NoError(t, err)
	s.observe = func(w *worker) { sound(t, w) }
	require.NoError(t, s.loop(t.Context()), name)
	require.Equal(t, 1, s.refused)
	require.Equal(t, len(trace)-1, s.answered)
	ended := 0
	for i := range s.tasks {
		task := &s.tasks[i]
		if task.worker < 0 {
			continue
		}
		ended++
		require.Equal(t, task.output, task.made, "%s: request %d", name, i)
		require.Greater(t, task.first, task.arrived)
		require.GreaterOrEqual(t, task.ended, task.first)
	}
	require.Equal(t, len(trace)-1, ended)
	served := 0
	for _, w := range s.workers {
		served += w.counts.requests
		require.Zero(t, w.taken, name)
		require.Zero(t, w.cache.locked, name)
		if w.host != nil {
			require.LessOrEqual(t, w.host.cache.pages, w.host.pool)
		}
	}
	if cfg.Prefill == 0 {
		require.Equal(t, ended, served)
	}
	for _, r := range s.replicas {
		r.take(never)
		for i := range r.loads {
			if len(s.replicas) == 1 && name != Greedy {
				require.Zero(t, r.loads[i].flight, "%s: load leaks", name)
				require.InDelta(t, 0, r.loads[i].pending, 1e-6)
			}
		}
		for _, row := range r.view.rows {
			for _, k := range row {
				require.Zero(t, k.sent, "%s: a prediction stays", name)
			}
		}
	}
}

// With no delay a router's view is the truth.
func TestViewFollowsCaches(t *testing.T) {
	cfg := tinyConfig(7)
	cfg.EventDelay = 0
	s, err := newRun(newPlan(tiny(7, 200), 4, 1, false), cfg, "kv", func(int) {})
	require.NoError(t, err)
	require.NoError(t, s.loop(t.Context()))
	s.replicas[0].view.catchUp(never)
	for i, w := range s.workers {
		for n := range s.nodes {
			row := s.replicas[0].view.rows[n]
			held := int32(0)
			if row != nil {
				held = row[i].held
			}
			require.Equal(t, w.cache.held(int32(n)), held, "worker %d node %d", i, n)
		}
		require.Equal(t, int64(w.cache.pages)*4, s.replicas[0].view.tokens[i])
	}
}

func TestSimulationIsDeterministic(t *testing.T) {
	trace, err := Synthetic("conversations", 3, 800)
	require.NoError(t, err)
	cfg := Config{CacheTokens: 200_000, Seed: 5, Replicas: Replicas{Routers: 3, Share: ShareGossip}}
	var first *Report
	for range 3 {
		r, err := Simulate(context.Background(), "x", trace, cfg, Names(), nil)
		require.NoError(t, err)
		if first == nil {
			first = r
		}
		assert.Equal(t, first, r)
	}
	other := cfg
	other.Seed = 6
	r, err := Simulate(context.Background(), "x", trace, other, []string{"random"}, nil)
	require.NoError(t, err)
	assert.NotEqual(t, resultOf(first.Results, "random").TTFT, r.Results[0].TTFT)
}

// alone is a policy of highest overlap alone, which no peer would call its own.
type alone struct{}

func (alone) Name() string { return "overlap alone" }

func (alone) Needs() policy.Needs { return policy.NeedsOverlap }

func (alone) Pick(_ policy.Request, candidates []policy.Candidate) policy.Choice {
	best := 0
	for i := range candidates {
		if max(candidates[i].Cached, candidates[i].Predicted) > max(candidates[best].Cached, candidates[best].Predicted) {
			best = i
		}
	}
	return policy.Choice{Index: best}
}

// Where every prompt has the same first block and nothing else in common, the cache is worth
// next to nothing. Overlap alone sends all of them to one worker; kv must be as good as taking
// turns.
func TestOneBlockTrap(t *testing.T) {
	trace, err := Synthetic("trap", 1, 2000)
	require.NoError(t, err)
	cfg := Config{}.withDefaults()
	p := newPlan(trace, cfg.PageSize, 1, false)
	mean := map[string]float64{}
	for _, name := range []string{"round-robin", "kv", "overlap alone"} {
		pick := name
		if name == "overlap alone" {
			pick = "kv"
		}
		s, err := newRun(p, cfg, pick, func(int) {})
		require.NoError(t, err)
		if name != pick {
			s.replicas[0].pick = alone{}
		}
		require.NoError(t, s.loop(t.Context()))
		r := s.result()
		mean[name] = r.TTFT.Mean.Seconds()
		if name == "kv" {
			assert.Less(t, r.Imbalance, 1.1)
		}
	}
	assert.Less(t, mean["kv"], 1.02*mean["round-robin"], fmt.Sprint(mean))
	assert.Greater(t, mean["overlap alone"], 100*mean["kv"], fmt.Sprint(mean))
}
