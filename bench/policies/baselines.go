package policies

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// newPolicy returns a baseline, which only the simulation has, or a policy of package policy.
func newPolicy(name string, o policy.Options) (policy.Policy, error) {
	switch name {
	case (dualMap{}).Name():
		return dualMap{objective: usualObjective}, nil
	case (&stickySessions{}).Name():
		return &stickySessions{}, nil
	}
	return policy.New(name, o)
}

// policyNames lists the policies and the baselines in alphabetical order.
func policyNames() []string {
	names := append(policy.Names(), dualMap{}.Name(), (&stickySessions{}).Name())
	slices.Sort(names)
	return names
}

// dualMap gives each prefix two ranks by two hash functions and takes the one with the larger
// overlap. Where that one is expected to miss the objective for the time to first token it
// takes the faster one (Yuan and others, "DualMap", ICLR 2026, arXiv 2602.06502). Its migration
// of queued requests is left out.
//
// The prefix must be adaptive: two ranks would get everything by the first 256 tokens, which
// all requests of many deployments share (mean TTFT of the conversation trace 1,500 times as
// long).
type dualMap struct {
	objective float64 // seconds to the first token that affinity may not endanger
}

const (
	// usualObjective is dualMap's objective in seconds.
	usualObjective = 2
	// usualRate is the prefill rate where none is known, as in package policy.
	usualRate = 10_000
)

// Name implements policy.Policy.
func (dualMap) Name() string { return "dualmap" }

// Needs implements policy.Policy.
func (dualMap) Needs() policy.Needs { return policy.NeedsOverlap | policy.NeedsTokens }

// Pick implements policy.Policy: of two candidates drawn by the seed.
func (p dualMap) Pick(req policy.Request, candidates []policy.Candidate) policy.Choice {
	return p.pickByPrefix(mix(req.Seed), req, candidates)
}

// pickByPrefix picks a candidate; prefix is a hash of the prompt's beginning.
func (p dualMap) pickByPrefix(prefix uint64, req policy.Request, candidates []policy.Candidate) policy.Choice {
	a := rendezvous(prefix, candidates, -1)
	if len(candidates) == 1 {
		return policy.Choice{Index: a, Reason: "only candidate"}
	}
	b := rendezvous(mix(prefix), candidates, a)
	rate := meanRate(candidates)
	waitA, waitB := wait(rate, &req, &candidates[a]), wait(rate, &req, &candidates[b])
	if candidates[b].Cached > candidates[a].Cached || (candidates[b].Cached == candidates[a].Cached && waitB < waitA) {
		a, b, waitA, waitB = b, a, waitB, waitA
	}
	if waitA > p.objective && waitB < waitA {
		return policy.Choice{Index: b, Cost: waitB, Reason: "faster of two, because the objective is in danger"}
	}
	return policy.Choice{Index: a, Cost: waitA, Reason: "larger overlap of two"}
}

// meanRate is the mean of the known prefill rates.
func meanRate(candidates []policy.Candidate) float64 {
	sum, known := 0.0, 0
	for i := range candidates {
		if rate := candidates[i].Rate; rate > 0 {
			sum += rate
			known++
		}
	}
	if known == 0 {
		return usualRate
	}
	return sum / float64(known)
}

// wait predicts the time to first token in seconds by queue and uncached tokens alone.
func wait(mean float64, req *policy.Request, c *policy.Candidate) float64 {
	rate := c.Rate
	if rate <= 0 {
		rate = mean
	}
	uncached := max(req.Tokens-max(c.Cached, c.Predicted), 0)
	return (float64(c.Pending) + float64(uncached)) / rate
}

// rendezvous returns the candidate, other than not, on which key hashes highest.
func rendezvous(key uint64, candidates []policy.Candidate, not int) int {
	best, most := 0, uint64(0)
	for i := range candidates {
		if h := mix(key ^ mix(candidates[i].ID)); i != not && (h >= most || best == not) {
			best, most = i, h
		}
	}
	return best
}
