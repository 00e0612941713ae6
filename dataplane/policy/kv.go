package policy

import "math"

// KV picks the rank that is predicted to answer first: the prompt tokens that
// it must still prefill before this request, plus this request's own uncached
// ones, plus what its running batch costs a prefill. All terms are in prefill
// tokens, so that no weight has to be tuned.
//
// Overlap alone is a trap: when every request begins with the same block it
// sends the whole trace to one worker (mean TTFT 10,643 s where this rule has
// seconds). The queue term is what lets a cold worker win.
type KV struct {
	Options
}

var _ Policy = KV{}

// batchTokens is what one running request adds to a prefill, in tokens: it
// takes part in the decode steps between prefill batches and holds KV pages
// that a longer batch lacks.
const batchTokens = 16

// hostCost is the share of its prefill that a token in host memory still costs:
// the copy to the GPU. Dynamo credits 0.75 of such a block.
const hostCost = 0.25

// tieTokens is the difference in cost below which two ranks are equal: less
// than the jitter of one scheduler step, and enough to spread requests with
// nothing cached.
const tieTokens = 8

// Name implements Policy.
func (KV) Name() string { return "kv" }

// Pick implements Policy.
func (p KV) Pick(req Request, candidates []Candidate) Choice {
	if p.Temperature > 0 {
		return p.sample(req, candidates)
	}
	best := math.Inf(1)
	for i := range candidates {
		best = min(best, p.cost(req, &candidates[i]))
	}
	return p.tie(req, candidates, best)
}

func (p KV) cost(req Request, c *Candidate) float64 {
	credit := float64(c.Cached) - hostCost*float64(c.Host)
	if c.Predicted > c.Cached {
		// What is in the making costs its wait, which Pending counts already.
		credit = max(credit, float64(c.Predicted))
	}
	uncached := float64(req.Tokens) - p.OverlapWeight*credit
	return float64(c.Pending) + max(uncached, 0) + batchTokens*float64(c.InFlight)
}

// tie takes one of the cheapest at random, the same one for the same seed.
func (p KV) tie(req Request, candidates []Candidate, best float64) Choice {
	ties, picked, cost := uint64(0), 0, best
	for i := range candidates {
		c := p.cost(req, &candidates[i])
		if c > best+tieTokens {
			continue
		}
		ties++
		// Reservoir sampling: each of n ties is picked with probability 1/n.
		if mix(req.Seed+ties)%ties == 0 {
			picked, cost = i, c
		}
	}
	return Choice{Index: picked, Cost: cost, Why: "lowest predicted prefill"}
}

// sample draws from the softmax of -cost / (range × temperature), Dynamo's
// form: the range makes the temperature independent of the prompt's length.
func (p KV) sample(req Request, candidates []Candidate) Choice {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range candidates {
		c := p.cost(req, &candidates[i])
		low, high = min(low, c), max(high, c)
	}
	scale := max(high-low, 1) * p.Temperature
	sum := 0.0
	for i := range candidates {
		sum += math.Exp((low - p.cost(req, &candidates[i])) / scale)
	}
	at := float64(mix(req.Seed)>>11) / (1 << 53) * sum
	for i := range candidates {
		c := p.cost(req, &candidates[i])
		at -= math.Exp((low - c) / scale)
		if at < 0 || i == len(candidates)-1 {
			return Choice{Index: i, Cost: c, Why: "sampled by temperature"}
		}
	}
	return Choice{}
}
