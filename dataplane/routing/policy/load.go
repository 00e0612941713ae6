package policy

// RoundRobin takes the candidates in turn.
type RoundRobin struct{}

// Random takes any candidate with equal probability.
type Random struct{}

// LeastLoad takes the candidate with the fewest requests in flight, then the fewest pending
// tokens.
type LeastLoad struct{}

// PowerOfTwo samples two candidates and takes the less loaded one.
type PowerOfTwo struct{}

var (
	_ Policy = RoundRobin{}
	_ Policy = Random{}
	_ Policy = LeastLoad{}
	_ Policy = PowerOfTwo{}
)

// Name implements Policy.
func (RoundRobin) Name() string { return "round-robin" }

// Pick implements Policy.
func (RoundRobin) Pick(req Request, candidates []Candidate) Choice {
	return Choice{Index: int(req.Turn % uint64(len(candidates))), Why: "its turn"}
}

// Name implements Policy.
func (Random) Name() string { return "random" }

// Pick implements Policy.
func (Random) Pick(req Request, candidates []Candidate) Choice {
	return Choice{Index: int(mix(req.Seed) % uint64(len(candidates))), Why: "at random"}
}

// Name implements Policy.
func (LeastLoad) Name() string { return "least-load" }

// Pick implements Policy.
func (LeastLoad) Pick(req Request, candidates []Candidate) Choice {
	best, ties := 0, uint64(1)
	for i := 1; i < len(candidates); i++ {
		switch compareLoad(&candidates[i], &candidates[best]) {
		case -1:
			best, ties = i, 1
		case 0:
			ties++
			if mix(req.Seed+ties)%ties == 0 {
				best = i
			}
		}
	}
	return Choice{Index: best, Cost: float64(candidates[best].InFlight), Why: "fewest requests in flight"}
}

// Name implements Policy.
func (PowerOfTwo) Name() string { return "power-of-two" }

// Pick implements Policy.
func (PowerOfTwo) Pick(req Request, candidates []Candidate) Choice {
	n := uint64(len(candidates))
	a := int(mix(req.Seed) % n)
	if n == 1 {
		return Choice{Index: a, Why: "only candidate"}
	}
	b := (a + 1 + int(mix(req.Seed+1)%(n-1))) % int(n)
	if compareLoad(&candidates[b], &candidates[a]) < 0 {
		a = b
	}
	return Choice{Index: a, Cost: float64(candidates[a].InFlight), Why: "less loaded of two"}
}

// compareLoad orders by requests in flight, weighted for slowed ranks, then by pending prompt
// tokens.
func compareLoad(a, b *Candidate) int {
	switch {
	case a.Weight != b.Weight && a.weighted() != b.weighted():
		if a.weighted() < b.weighted() {
			return -1
		}
		return 1
	case a.InFlight != b.InFlight:
		if a.InFlight < b.InFlight {
			return -1
		}
		return 1
	case a.Pending != b.Pending:
		if a.Pending < b.Pending {
			return -1
		}
		return 1
	default:
		return 0
	}
}
