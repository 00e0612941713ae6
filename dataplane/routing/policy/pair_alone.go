package policy

// Alone returns the reason to give a request to the regular candidate of index at instead of
// a pair, or "" for the pair.
//
// Fewer than least tokens to compute are not worth a pair: they delay the decoding there by
// less than the handshake and the transfer delay the request. They go to the pair where they
// would have to wait for running requests to end. Longer prompts go where the first token comes
// first.
func Alone(p Policy, req Request, regular []Candidate, at int, l *PairCandidates, prefill, decode, least int) string {
	if _, sticky := p.(Sticky); sticky {
		if sessionRank(&req, regular) == at {
			return "its session's rank, alone"
		}
		if sessionRank(&req, l.Prefill) == prefill {
			return ""
		}
	}
	kv, ok := Unwrap(p).(KV)
	if !ok {
		kv = KV{Options: Defaults}
	}
	f, g := sameRates(&req, regular, l.Prefill)
	c := &regular[at]
	alone := kv.cost(&f, &req, c)
	if uncached(&req, c) < least && alone.Pool == 0 {
		return "alone: what it lacks is too short for a pair"
	}
	if alone.TTFT() < pairTTFT(kv, &g, &req, l, prefill, decode) {
		return "alone: its first token comes before a pair's"
	}
	return ""
}

// PairTTFT predicts the time to first token of a pair, in seconds, as Alone does; there may be
// no regular candidates.
func PairTTFT(kv KV, req Request, regular []Candidate, l *PairCandidates, prefill, decode int) float64 {
	_, g := sameRates(&req, regular, l.Prefill)
	return pairTTFT(kv, &g, &req, l, prefill, decode)
}

func pairTTFT(kv KV, f *fleet, req *Request, l *PairCandidates, prefill, decode int) float64 {
	d, c := survey(req, l.Decode), &l.Decode[decode]
	first := prefillKV(kv)
	cost := first.cost(f, req, &l.Prefill[prefill])
	room, _ := decodeCost(&d, req, c)
	return cost.TTFT() + room + l.transfer(prefill, decode, req.Tokens)
}

// sameRates surveys two groups that are compared. Where no rank of one has told its speed, the
// other's counts for both.
func sameRates(req *Request, a, b []Candidate) (f, g fleet) {
	f, g = survey(req, a), survey(req, b)
	switch knownA, knownB := anyRate(a), anyRate(b); {
	case knownA && !knownB:
		g.rate, g.token = f.rate, f.token
	case knownB && !knownA:
		f.rate, f.token = g.rate, g.token
	}
	return f, g
}

func anyRate(candidates []Candidate) bool {
	for i := range candidates {
		if candidates[i].Rate > 0 {
			return true
		}
	}
	return false
}
