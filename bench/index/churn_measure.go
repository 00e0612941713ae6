package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/radix"
)

const (
	churnChecks  = 20  // points of the history where answers are compared
	churnLookUps = 150 // prompts at each point
)

// churnPlayer plays a history on its own index.
type churnPlayer struct {
	c       *Churn
	x       *radix.Index
	domains [domains]radix.Domain
	worker  []radix.Worker // by rank
	rank    map[radix.Worker]int
	scratch []uint64 // scratch
}

func newChurnPlayer(c *Churn) *churnPlayer {
	p := &churnPlayer{c: c, x: radix.New(radix.Config{Seed: 1}), rank: map[radix.Worker]int{}}
	p.worker = make([]radix.Worker, c.o.Ranks)
	for i, adapter := range []string{"", "adapter"} {
		key := radix.DomainKey{Model: "churn", BlockSize: idTokens / c.IDBlocks, LoRA: adapter}
		p.domains[i] = p.x.Domain(key)
	}
	return p
}

// apply makes one step and reports whether the index accepted it.
func (p *churnPlayer) apply(s *step) bool {
	rank, w := int(s.rank), p.worker[s.rank]
	switch s.kind {
	case stepStore:
		names := p.c.engineHashesOf(rank, s.req)
		store := radix.Store{
			Worker: w, Domain: p.domains[p.c.domains[s.req]], Tier: s.tier,
			Engine: names[s.start:s.end], Blocks: p.c.Content(s.req)[s.start:s.end],
		}
		if s.start > 0 {
			store.HasParent, store.Parent = true, names[s.start-1]
		}
		return p.x.Store(store) == nil
	case stepRemove:
		gone := p.c.engineHashesOf(rank, s.req)[s.start:s.end]
		if !s.front {
			p.scratch = append(p.scratch[:0], gone...)
			slices.Reverse(p.scratch)
			gone = p.scratch
		}
		return p.x.Remove(w, s.tier, gone) == 0
	case stepClear:
		p.x.Clear(w)
	case stepRemoveWorker:
		p.x.RemoveWorker(w)
		delete(p.rank, w)
	case stepAddWorker:
		p.worker[rank] = p.x.AddWorker()
		p.rank[p.worker[rank]] = rank
	}
	return true
}

func (p *churnPlayer) match(dst []radix.Overlap, req uint32) []radix.Overlap {
	return p.x.Match(dst, p.domains[p.c.domains[req]], p.c.Prompt(req))
}

// comparison counts prompts by the index's answers.
type comparison struct {
	lookUps int
	wrong   int // an answer that does not follow from the events
	over    int // some rank is credited with more than it holds
	under   int // some rank is credited with less than it holds
	held    int // sum of the real overlaps
	credits int // sum of the overlaps that the index credits
}

// compare looks up requests and compares the answers for all ranks.
func (p *churnPlayer) compare(o *oracle, requests []uint32, got *comparison) {
	answer := make([]overlap, p.c.o.Ranks)
	var buf []radix.Overlap
	for _, req := range requests {
		clear(answer)
		wrong, over, under := false, false, false
		buf = p.match(buf[:0], req)
		for _, v := range buf {
			rank, ok := p.rank[v.Worker]
			if !ok {
				wrong = true
				continue
			}
			answer[rank] = overlap{uint64(v.Blocks), uint64(v.GPU)}
		}
		for rank, a := range answer {
			really, told := o.match(rank, req)
			wrong = wrong || a != told
			over = over || a.any > really.any || a.gpu > really.gpu
			under = under || a.any < really.any || a.gpu < really.gpu
			got.held += int(really.any)
			got.credits += int(a.any)
		}
		got.lookUps++
		got.wrong += boolInt(wrong)
		got.over += boolInt(over)
		got.under += boolInt(under)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// check plays the history and compares answers at points spread over it. refused counts the
// steps that the index did not accept.
func (c *Churn) check(ctx context.Context) (got comparison, refused int) {
	p, o := newChurnPlayer(c), newOracle(c)
	r := rand.New(rand.NewPCG(19, 19))
	every := max(len(c.steps)/churnChecks, 1)
	for i := range c.steps {
		refused += boolInt(!p.apply(&c.steps[i]))
		o.apply(&c.steps[i])
		if (i+1)%every != 0 {
			continue
		}
		if ctx.Err() != nil {
			return got, refused
		}
		requests := make([]uint32, churnLookUps)
		for j := range requests {
			// Recent requests are mostly held; the next ones share their prefix.
			near := int(c.steps[i].req) + r.IntN(400) - 300
			requests[j] = uint32(min(max(near, 0), c.Requests()-1))
		}
		p.compare(o, requests, &got)
	}
	return got, refused
}

// Measure plays the history, compares answers with the oracle, and measures. Errors are those
// of [Measure].
func (c *Churn) Measure(ctx context.Context, cfg Config) (*Result, error) {
	progress := func(format string, args ...any) {
		if cfg.Progress != nil {
			cfg.Progress(fmt.Sprintf(format, args...))
		}
	}
	progress("comparing answers over %s", c.describe())
	got, refused := c.check(ctx)
	o := newOracle(c)
	for i := range c.steps {
		o.apply(&c.steps[i])
	}
	r := &Result{Workload: cfg.Name, Workers: c.o.Ranks, LookUps: got.lookUps}
	r.Wrong, r.Refused = got.wrong, refused
	r.Pairs, r.Distinct = o.pairs()
	r.add("credited with more than is held", "answers", float64(got.over))
	r.add("credited with less than is held", "answers", float64(got.under))
	r.add("credited of the blocks held", "%", 100*float64(got.credits)/float64(max(got.held, 1)))
	for i := range cfg.Rounds {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cannot measure the index: %w", ctx.Err())
		}
		progress("round %d of %d", i+1, cfg.Rounds)
		c.measure(r)
	}
	if got.over > 0 {
		return r, fmt.Errorf("%w: %d answers credit more than is held", ErrWrong, got.over)
	}
	return r, r.err()
}

// measure is one round: the whole history by one writer, then look-ups of the last requests.
func (c *Churn) measure(r *Result) {
	before, start := liveBytes(), time.Now()
	p := newChurnPlayer(c)
	blocks := 0
	begin := time.Since(start)
	for i := range c.steps {
		p.apply(&c.steps[i])
		blocks += int(c.steps[i].end - c.steps[i].start)
	}
	r.add("apply, 1 writer", "M blocks/s", millionsPerSecond(blocks, time.Since(start)-begin))
	r.Entries = p.x.Stats().Entries
	heap := liveBytes() - before
	r.add("heap", "B/entry", float64(heap)/float64(max(r.Pairs, 1)))
	r.add("counted of the heap", "%", 100*float64(p.x.Stats().Bytes)/float64(heap))
	var times []uint32
	buf := make([]radix.Overlap, 0, c.o.Ranks)
	for range 5 {
		for req := max(c.Requests()-testRequests, 0); req < c.Requests(); req++ {
			t := time.Since(start)
			buf = p.match(buf[:0], uint32(req))
			times = append(times, uint32(time.Since(start)-t))
		}
	}
	r.addTimes("look-up", times, 50, 99, 99.9)
}
