package routing

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// WhatIf is the result of a policy on the choices of [Router.Recent]. Tokens are of prompts, as
// each choice expected them. Each choice is judged alone, with the caches and loads that it really
// met: earlier different choices have not changed them.
type WhatIf struct {
	Policy string // "" for the choices that were made
	Same   int    // choices that are as they were made
	Cached int64  // tokens in the cache of the chosen rank, by then
	Left   int64  // tokens that it computes
	Ahead  int64  // tokens of earlier requests that it computes first
	Ranks  int    // different ranks that were chosen
	Most   int    // choices of the rank with the most
}

// MostOverlap names the policy of [Router.WhatIf] that goes by the cache alone.
const MostOverlap = "most-overlap"

// WhatIf compares the kept choices with those of other policies, the choices made first. of is the
// number of choices, tokens that of their prompts, and without the number of choices that are left
// out, since their policy does without overlap.
func (r *Router) WhatIf() (all []WhatIf, of int, tokens int64, without int) {
	all = []WhatIf{{}, {Policy: policy.RoundRobin{}.Name()}, {Policy: policy.LeastLoad{}.Name()}, {Policy: MostOverlap}}
	chosen := make([]map[*worker.Rank]int, len(all))
	for i := range chosen {
		chosen[i] = map[*worker.Rank]int{}
	}
	r.recent.read(func(c *keptChoice, choice RecentChoice) bool {
		made := slices.Index(c.facts.ranks, choice.Decision.Rank)
		if !c.policy.Needs().Has(policy.NeedsOverlap) || made < 0 {
			without++
			return true
		}
		req, candidates := choice.Request, c.facts.candidates
		req.Turn = choice.Number // kept ones are a sample, whose turns may all be of one rank
		picks := [...]int{made, policy.RoundRobin{}.Pick(req, candidates).Index, policy.LeastLoad{}.Pick(req, candidates).Index, mostOverlap(candidates)}
		of, tokens = of+1, tokens+int64(req.Tokens)
		for i, index := range picks {
			all[i].add(req.Tokens, &candidates[index])
			chosen[i][c.facts.ranks[index]]++
			if index == made {
				all[i].Same++
			}
		}
		return true
	})
	for i, ranks := range chosen {
		all[i].Ranks = len(ranks)
		for _, n := range ranks {
			all[i].Most = max(all[i].Most, n)
		}
	}
	return all, of, tokens, without
}

func (w *WhatIf) add(tokens int, c *policy.Candidate) {
	cached := min(expected(c), tokens)
	w.Cached += int64(cached)
	w.Left += int64(tokens - cached)
	w.Ahead += c.Pending
}

// expected returns the tokens of the prompt that a candidate has, or will have by then.
func expected(c *policy.Candidate) int { return max(c.Cached, c.Predicted) }

// mostOverlap returns the candidate with most of the prompt, of several one with fewest requests.
func mostOverlap(candidates []policy.Candidate) (best int) {
	for i := range candidates {
		a, b := &candidates[i], &candidates[best]
		if cmp.Or(cmp.Compare(expected(b), expected(a)), cmp.Compare(a.InFlight, b.InFlight)) < 0 {
			best = i
		}
	}
	return best
}
