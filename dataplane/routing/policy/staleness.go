package policy

// Staleness is the score of the articles on cluster-level prefix routing from which this
// project's design began: the overlap as a share of the prompt, trusted less the longer the
// rank has been silent, against the depth of its queue:
//
//	overlap x f + (1 - f) x 0.5 - 0.01 x queue depth,  f = max(0, 1 - age / (3 x interval))
//
// The highest wins. A rank that has been silent for three intervals counts as half a hit.
type Staleness struct {
	Options
}

var _ Policy = Staleness{}

const (
	staleAfter    = 3    // intervals until no overlap is trusted
	staleOverlap  = 0.5  // overlap assumed then
	depthWeight   = 0.01 // of one request in the queue
	slowestReport = 5    // seconds: the articles' workers report every 1 to 5 s
)

// Name implements Policy.
func (Staleness) Name() string { return "staleness" }

// Pick implements Policy.
func (p Staleness) Pick(req Request, candidates []Candidate) Choice {
	var room [stackScores]float64
	return lowest(p.scores(grow(room[:0], len(candidates)), &req, candidates), req.Seed, "highest overlap, by its freshness, less queue")
}

// scores are negated: the lowest is the best.
func (p Staleness) scores(dst []float64, req *Request, candidates []Candidate) []float64 {
	interval := p.Interval
	if interval <= 0 {
		interval = slowestReport
	}
	for i := range candidates {
		c := &candidates[i]
		fresh := max(0, 1-c.Age/(staleAfter*interval))
		overlap := float64(c.Cached) / float64(max(req.Tokens, 1))
		dst = append(dst, depthWeight*float64(c.InFlight)-overlap*fresh-(1-fresh)*staleOverlap)
	}
	return dst
}
