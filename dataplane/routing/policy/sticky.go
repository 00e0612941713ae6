package policy

// loadBound is the most requests of a session's rank over the mean of all, the new request
// counted (consistent hashing with bounded loads; Mirrokni and others, 2018).
const loadBound = 1.25

// Sticky keeps a session on its rank. The wrapped policy chooses for the first request of a
// session, where the session's rank is no candidate (unfit, or already tried), and where it is
// overloaded: its batch is full, or it has more than loadBound times the mean of requests in
// flight.
//
// With kv a conversation mostly stays without Sticky, since its pages are there. Sticky is for
// sessions with state outside the prompt (SGLang's session_params), and for policies without
// overlap.
type Sticky struct {
	Policy
}

var _ Policy = Sticky{}

// Pick implements Policy.
func (p Sticky) Pick(req Request, candidates []Candidate) Choice {
	if i := sessionRank(&req, candidates); i >= 0 {
		return Choice{Index: i, Cost: float64(candidates[i].InFlight), Why: "its session's rank"}
	}
	return p.Policy.Pick(req, candidates)
}

// sessionRank returns the candidate that keeps the request's session, or -1.
func sessionRank(req *Request, candidates []Candidate) int {
	if req.Home == 0 {
		return -1
	}
	at, total := -1, int64(1)
	for i := range candidates {
		total += candidates[i].InFlight
		if candidates[i].ID == req.Home {
			at = i
		}
	}
	if at < 0 {
		return -1
	}
	c := &candidates[at]
	full := c.Most > 0 && c.InFlight >= c.Most
	// With few requests in flight the mean is below one, and any rank with a request would be
	// above it.
	bound := max(loadBound*float64(total)/float64(len(candidates)), 1)
	if full || float64(c.InFlight) > bound {
		return -1
	}
	return at
}

// Unwrap returns the policy that scores candidates: p itself, or the policy that it wraps.
func Unwrap(p Policy) Policy {
	if s, ok := p.(Sticky); ok {
		return s.Policy
	}
	return p
}
