package policy

// LMetric multiplies the prompt tokens that a rank would compute by the batch that the request
// would join, and takes the lowest product (Zhang and others, "LMetric: Simple is Better",
// 2026, arXiv 2603.15202; SGLang's gateway has it as lmetric.rs, with load + 1 as the batch).
// It needs no tuning: a factor in either term cancels out.
type LMetric struct{}

var _ Policy = LMetric{}

// Name implements Policy.
func (LMetric) Name() string { return "lmetric" }

// Pick implements Policy.
func (p LMetric) Pick(req Request, candidates []Candidate) Choice {
	var room [stackScores]float64
	return lowest(p.scores(grow(room[:0], len(candidates)), &req, candidates), req.Seed, "lowest product of new tokens and batch")
}

func (LMetric) scores(dst []float64, req *Request, candidates []Candidate) []float64 {
	for i := range candidates {
		c := &candidates[i]
		dst = append(dst, float64(uncached(req, c))*float64(c.InFlight+1))
	}
	return dst
}
