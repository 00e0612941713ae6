package policies

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// baseline is a policy that only the simulation has: it chooses by a hash of the prompt's
// beginning, which a router does not compute.
type baseline interface {
	policy.Policy
	// pickByPrefix picks a candidate; prefix is a hash of the prompt's beginning.
	pickByPrefix(prefix uint64, req policy.Request, candidates []policy.Candidate) policy.Choice
	// adaptive reports whether the hash is of an adaptive prefix, else of the first
	// prefixTokens.
	adaptive() bool
}

// newPolicy returns a baseline or a policy of package policy.
func newPolicy(name string, o policy.Options) (policy.Policy, error) {
	switch name {
	case (prefixHash{}).Name():
		return prefixHash{}, nil
	case (dualMap{}).Name():
		return dualMap{objective: usualObjective}, nil
	case (stickyHash{}).Name():
		return stickyHash{}, nil
	case (&stickySessions{}).Name():
		return &stickySessions{}, nil
	}
	return policy.New(name, o)
}

// policyNames lists the policies and the baselines in alphabetical order.
func policyNames() []string {
	names := append(policy.Names(), prefixHash{}.Name(), dualMap{}.Name(), stickyHash{}.Name(), (&stickySessions{}).Name())
	slices.Sort(names)
	return names
}

// prefixHash sends prompts with the same first tokens to the same rank unless that rank has
// more than 1.25 times the mean load, and then to the least loaded one (consistent hashing with
// bounded loads; smg's prefix_hash over 256 tokens). Rendezvous hashing replaces the ring: it
// moves as few prefixes when a rank comes or goes and needs no state.
type prefixHash struct{}

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

var (
	_ baseline = prefixHash{}
	_ baseline = dualMap{}
)

const (
	// loadBound is smg's load_factor: the most requests of a rank over the mean of all, the new
	// request counted.
	loadBound = 1.25
	// usualObjective is dualMap's objective in seconds.
	usualObjective = 2
	// usualRate is the prefill rate where none is known, as in package policy.
	usualRate = 10_000
)

// Name implements policy.Policy.
func (prefixHash) Name() string { return "prefix-hash" }

// Needs implements policy.Policy.
func (prefixHash) Needs() policy.Needs { return 0 }

func (prefixHash) adaptive() bool { return false }

// Pick implements policy.Policy: the least loaded candidate.
func (p prefixHash) Pick(req policy.Request, candidates []policy.Candidate) policy.Choice {
	return p.pickByPrefix(0, req, candidates)
}

func (prefixHash) pickByPrefix(prefix uint64, _ policy.Request, candidates []policy.Candidate) policy.Choice {
	least, total := 0, int64(1)
	for i := range candidates {
		total += candidates[i].InFlight
		if candidates[i].InFlight < candidates[least].InFlight {
			least = i
		}
	}
	first := rendezvous(prefix, candidates, -1)
	bound := loadBound * float64(total) / float64(len(candidates))
	switch {
	case prefix == 0:
		return policy.Choice{Index: least, Reason: "least load, without a prefix"}
	case float64(candidates[first].InFlight) <= bound || float64(candidates[least].InFlight) > bound:
		return policy.Choice{Index: first, Reason: "its prefix"}
	}
	return policy.Choice{Index: least, Reason: "least load, because its prefix's rank is full"}
}

// Name implements policy.Policy.
func (dualMap) Name() string { return "dualmap" }

// Needs implements policy.Policy.
func (dualMap) Needs() policy.Needs { return policy.NeedsOverlap | policy.NeedsTokens }

func (dualMap) adaptive() bool { return true }

// Pick implements policy.Policy: of two candidates drawn by the seed.
func (p dualMap) Pick(req policy.Request, candidates []policy.Candidate) policy.Choice {
	return p.pickByPrefix(mix(req.Seed), req, candidates)
}

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
