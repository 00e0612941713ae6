package policy

// Fleet is what kv's costs need of all ranks together, to choose among some of them.
type Fleet struct{ fleet fleet }

// SurveyFleet looks at all ranks. What they hold of one prompt is left out.
func SurveyFleet(candidates []Candidate) Fleet {
	f, roomy := survey(candidates), 0
	for i := range candidates {
		if !candidates[i].crowded() {
			roomy++
		}
	}
	f.crowd = float64(roomy) / float64(len(candidates))
	return Fleet{f}
}

// PickAmong is Pick among some candidates of a fleet: those that hold something of the prompt and those with the least load. It
// chooses what Pick would among all, where no other one is as good.
func (p KV) PickAmong(req Request, of *Fleet, some []Candidate) Choice {
	f := of.fleet
	for i := range some {
		if c := &some[i]; c.Predicted > c.Cached && c.InFlight < c.Most {
			f.crowd = 0
		}
	}
	var room [2 * fewScores]float64
	return lowest(p.score(room[:0], &f, &req, some), req.Seed, tieTokens*f.token, kvWhy)
}

// Plain reports whether costs alone decide, and the same ones in whatever place a candidate stands.
func (p KV) Plain() bool { return p.Temperature == 0 && p.Replicas <= 1 && p.Without == 0 }

// Loads appends what each candidate would cost a prompt without tokens: its load.
func (p KV) Loads(dst []float64, of *Fleet, candidates []Candidate) []float64 {
	var one [1]Candidate
	for i := range candidates {
		one[0] = candidates[i]
		one[0].Cached, one[0].Host, one[0].Disk, one[0].Predicted = 0, 0, 0, 0
		dst = p.score(dst, &of.fleet, &Request{}, one[:])
	}
	return dst
}
