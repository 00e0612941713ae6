package policy

// PrefixHash sends prompts with the same first tokens to the same rank unless that has more than 1.25 times the mean load,
// and then to the least loaded one (consistent hashing with bounded loads; smg's prefix_hash over 256 tokens). The ring is
// replaced by rendezvous hashing, which moves as few prefixes when a rank comes or goes and needs no state. Without a
// prefix the least loaded rank wins.
type PrefixHash struct{}

// DualMap gives each prefix two ranks by two hash functions and takes the one with the larger overlap, unless it is
// expected to miss the objective for the time to the first token: then the one that is expected to answer first (Yuan and
// others, "DualMap", ICLR 2026, arXiv 2602.06502; its migration of queued requests is not for a router that
// sends at once). Without a prefix any two ranks are drawn.
//
// Its prefix must be adaptive, as package family makes it: by the first 256 tokens, which all requests of many deployments share, two ranks would
// get everything (mean TTFT of the conversation trace 1,500 times as long). By replay of 49 workloads counting is as good as knowing the whole trace
// beforehand, but for tool loops behind long instructions (mean TTFT twice as long): lengths double, and theirs end between two.
type DualMap struct {
	Options
}

var (
	_ Policy = PrefixHash{}
	_ Policy = DualMap{}
)

// loadBound is smg's load_factor: a rank may have so many times the mean load, the new request counted.
const loadBound = 1.25

// usualObjective is DualMap's objective in seconds where none is given: what people call a slow first word.
const usualObjective = 2

// Name implements Policy.
func (PrefixHash) Name() string { return "prefix-hash" }

// Pick implements Policy.
func (PrefixHash) Pick(req Request, candidates []Candidate) Choice {
	least, total := 0, int64(1)
	for i := range candidates {
		total += candidates[i].InFlight
		if candidates[i].InFlight < candidates[least].InFlight {
			least = i
		}
	}
	first := rendezvous(req.Prefix, candidates, -1)
	bound := loadBound * float64(total) / float64(len(candidates))
	switch {
	case req.Prefix == 0:
		return Choice{Index: least, Cost: float64(candidates[least].InFlight), Why: "least load, without a prefix"}
	case float64(candidates[first].InFlight) <= bound || float64(candidates[least].InFlight) > bound:
		return Choice{Index: first, Cost: float64(candidates[first].InFlight), Why: "its prefix"}
	}
	return Choice{Index: least, Cost: float64(candidates[least].InFlight), Why: "least load, because its prefix's rank is full"}
}

// Name implements Policy.
func (DualMap) Name() string { return "dualmap" }

// Pick implements Policy.
func (p DualMap) Pick(req Request, candidates []Candidate) Choice {
	key := req.Prefix
	if key == 0 {
		key = mix(req.Seed)
	}
	a := rendezvous(key, candidates, -1)
	if len(candidates) == 1 {
		return Choice{Index: a, Why: "only candidate"}
	}
	b := rendezvous(mix(key), candidates, a)
	f := survey(candidates)
	waitA, waitB := wait(f, &req, &candidates[a]), wait(f, &req, &candidates[b])
	if candidates[b].Cached > candidates[a].Cached || (candidates[b].Cached == candidates[a].Cached && waitB < waitA) {
		a, b, waitA, waitB = b, a, waitB, waitA
	}
	objective := p.Objective
	if objective <= 0 {
		objective = usualObjective
	}
	if waitA > objective && waitB < waitA {
		return Choice{Index: b, Cost: waitB, Why: "faster of two, because the objective is in danger"}
	}
	return Choice{Index: a, Cost: waitA, Why: "larger overlap of two"}
}

// wait predicts the time to the first token in seconds, by queue and uncached tokens alone.
func wait(f fleet, req *Request, c *Candidate) float64 {
	rate := c.Rate
	switch {
	case c.slowed():
		rate = f.slowRate(c)
	case rate <= 0:
		rate = f.rate
	}
	return (float64(c.Pending) + float64(uncached(req, c))) / rate
}

// rendezvous returns the candidate, other than not, on which key hashes highest.
func rendezvous(key uint64, candidates []Candidate, not int) int {
	best, most := 0, uint64(0)
	for i := range candidates {
		id := candidates[i].ID
		if id == 0 {
			id = uint64(i) + 1
		}
		if h := mix(key ^ mix(id)); i != not && (h >= most || best == not) {
			best, most = i, h
		}
	}
	return best
}
