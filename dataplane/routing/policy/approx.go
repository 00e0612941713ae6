package policy

import "math"

// Approx is the rule of sglang-router's cache_aware policy (sgl-model-gateway, cache_aware.rs).
// While loads are balanced it takes the rank with the highest overlap, if that is more than 0.3
// of the prompt, else the least loaded one; when they are not, the least loaded one. Loads are
// out of balance when the largest is more than 64 requests above and more than 1.5 times the
// smallest. Of equal overlaps the lower load wins, of equal loads the smaller tree.
//
// It was made for the approximate index: Cached should come from there.
type Approx struct{}

var _ Policy = Approx{}

// The defaults of --cache-threshold, --balance-abs-threshold and --balance-rel-threshold.
const (
	matchThreshold = 0.3
	balanceAbs     = 64
	balanceRel     = 1.5
)

// Name implements Policy.
func (Approx) Name() string { return "approx" }

// Pick implements Policy.
func (Approx) Pick(req Request, candidates []Candidate) Choice {
	low, high, match := int64(math.MaxInt64), int64(0), 0
	for i := range candidates {
		c := &candidates[i]
		low, high, match = min(low, c.InFlight), max(high, c.InFlight), max(match, c.Cached)
	}
	if high-low > balanceAbs && float64(high) > balanceRel*float64(low) {
		return leastOf(candidates, low, 0, "least load, because loads are out of balance")
	}
	if float64(match) > matchThreshold*float64(req.Tokens) {
		return leastOf(candidates, math.MaxInt64, match, "highest overlap")
	}
	return leastOf(candidates, low, 0, "least load, because no overlap is worth it")
}

// leastOf takes the least loaded candidate, by requests and then by tree, of those with at most
// load requests and at least cached tokens of overlap.
func leastOf(candidates []Candidate, load int64, cached int, why string) Choice {
	best := -1
	for i := range candidates {
		c := &candidates[i]
		if c.InFlight > load || c.Cached < cached {
			continue
		}
		if best < 0 || c.InFlight < candidates[best].InFlight || (c.InFlight == candidates[best].InFlight && c.Tree < candidates[best].Tree) {
			best = i
		}
	}
	return Choice{Index: best, Cost: float64(candidates[best].InFlight), Why: why}
}
