package policies

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Requests that wait at a router are served as by the naive worker, each once.
func TestQueueAgainstNaive(t *testing.T) {
	held := 0
	for seed := range uint64(24) {
		trace := tiny(seed, 90+int(seed))
		p := newPlan(trace, 4, 1, false)
		spelled, ends := spell(p, trace), make([]int, len(p.jobs))
		for i := range ends {
			ends[i] = int(p.jobs[i].pages)
		}
		unit := units(4, spelled, ends)
		cfg := tinyConfig(seed)
		cfg.Routers, cfg.queue = 1+int(seed%2), Queues()[seed%4/2]
		s, err := simulate(t.Context(), p, cfg, "kv", func(int) {})
		require.NoError(t, err)
		require.Equal(t, len(trace), s.answered)
		for w := range s.workers {
			naively(t, s, spelled, unit, w)
		}
		held += s.holding.held
	}
	assert.Greater(t, held, 100, "requests that waited")
}

// One worker of one request at a time, and a router that may send it two (an eighth of its
// batch, at least one, waits there). Prompts of two documents come in turn: depth first stays
// with the one that it is in.
func TestQueueOrders(t *testing.T) {
	var trace []Request
	for i := range uint64(12) {
		trace = append(trace, Request{At: time.Duration(i), Prompt: []Segment{{1 + i%2, 320}, {100 + i, 16}}, Output: 2})
	}
	p := newPlan(trace, 16, 1, false)
	cfg := Config{Workers: 1, CacheTokens: 352, Service: Service{MaxRunning: 1}}.withDefaults()
	hits := map[string]int{}
	for _, order := range Queues() {
		cfg.queue = order
		s, err := simulate(t.Context(), p, cfg, "kv", func(int) {})
		require.NoError(t, err)
		for i := range s.tasks {
			hits[order] += s.tasks[i].cached
			if order == FIFO && i > 0 {
				assert.GreaterOrEqual(t, s.tasks[i].sent, s.tasks[i-1].sent)
			}
		}
	}
	assert.Zero(t, hits[FIFO], "the pool holds one document")
	assert.Equal(t, 8*320, hits[DepthFirst], "all but the two that are there before anything waits, and the first of each document behind them")
}

func TestQueueIsBounded(t *testing.T) {
	var trace []Request
	for i := range uint64(mostWaiting + 10) {
		trace = append(trace, Request{Prompt: []Segment{{i + 1, 16}}, Output: 1})
	}
	cfg := Config{Workers: 1, Service: Service{MaxRunning: 4}, Variants: Variants{Queues: []string{FIFO}}}
	r, err := Simulate(t.Context(), "crowd", trace, cfg, nil, nil)
	require.NoError(t, err)
	x := r.Results[0]
	assert.Equal(t, "kv, fifo queue", x.Policy)
	assert.Equal(t, 10-5, x.TurnedAway, "beyond the queue and the five that the worker takes")
	assert.Equal(t, mostWaiting, x.Held)
	assert.Positive(t, x.HeldFor)
	assert.Len(t, r.Warnings, 1)
	for _, bad := range []Config{{Variants: Variants{Queues: []string{"stack"}}}, {Pools: Pools{Prefill: 1}, Variants: Variants{Queues: Queues()}}} {
		_, err := Simulate(t.Context(), "crowd", trace[:1], bad, nil, nil)
		require.ErrorIs(t, err, ErrConfig)
	}
}

// Branches share as many beginnings as their prompts.
func TestBranches(t *testing.T) {
	p := newPlan([]Request{
		{Prompt: []Segment{{1, 160}, {2, 160}}, Output: 40},
		{At: 1, Prompt: []Segment{{1, 160}, {3, 160}}, Output: 1},
		{At: 2, Prompt: []Segment{{1, 160}, {2, 160}}, Output: 1},
	}, 16, 1, false)
	g := newGate(DepthFirst, 5*time.Minute)
	a, b, c := g.branch(p, &p.jobs[0]), g.branch(p, &p.jobs[1]), g.branch(p, &p.jobs[2])
	assert.Equal(t, a[:10], b[:10], "ten pages of 16")
	assert.NotEqual(t, a[10], b[10])
	assert.Equal(t, a, c, "without the answer")
}
