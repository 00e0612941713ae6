package routing

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// explainPairs fills in what a choice with pairs was made of.
func (s *Scratch) explainPairs(e *Explanation) {
	if len(s.decodes) == 0 {
		return
	}
	kv, l := policy.KV{Options: e.Options}, s.pairing()
	e.First, e.Second = s.ranks[s.alone+s.first], s.decodes[s.second]
	e.PairTTFT = policy.PairTTFT(kv, e.Request, s.candidates[:s.alone], &l, s.first, s.second)
	for j, cost := range policy.DecodeCosts(nil, e.Request, &l, s.first) {
		e.Decodes = append(e.Decodes, Decoder{Rank: s.decodes[j], Candidate: s.decodeCandidates[j], Load: s.decodeLoads[j], Cost: cost, Broken: l.Broken(s.first, j)})
	}
}

// explainCosts returns the costs of s.ranks, and what the policy compares where it compares numbers.
func (r *Router) explainCosts(s *Scratch, e *Explanation) (costs []policy.Cost, scores []float64) {
	kv := policy.KV{Options: e.Options}
	single, l := s.candidates[:s.alone], s.pairing()
	costs = kv.Costs(nil, e.Request, single)
	scores = policy.Scores(nil, r.Policy(), e.Request, single)
	if len(s.decodes) == 0 {
		return costs, scores
	}
	costs = policy.PrefillCosts(costs, kv, e.Request, l.Prefill)
	if p, ok := policy.Unwrap(r.Policy()).(policy.KV); ok {
		return costs, policy.PrefillScores(scores, p, e.Request, &l)
	}
	return costs, policy.Scores(scores, r.Policy(), e.Request, l.Prefill)
}
