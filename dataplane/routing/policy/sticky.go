package policy

// loadBound is the most requests of a session's rank over the mean of all, the new request counted: the
// load_factor of smg's prefix_hash.
const loadBound = 1.25

// Sticky keeps a session with the rank that has it, and leaves everything else to the policy that it wraps: the first
// request of a session, one whose rank is not among the candidates (unfit, or already tried), and one whose rank is
// overloaded. A rank is overloaded when it has no place left in its batch, or more than 1.25 times the mean of requests in
// flight, the new one counted (consistent hashing with bounded loads; Mirrokni and others, 2018): no session can hold on
// to a rank that others would have to help.
//
// With kv a conversation mostly stays without it, for its pages are there; it is for sessions whose state is not in the
// prompt (SGLang's session_params), and for policies that do not look at overlap.
type Sticky struct {
	Policy
}

var _ Policy = Sticky{}

// Pick implements Policy.
func (p Sticky) Pick(req Request, candidates []Candidate) Choice {
	if i := home(&req, candidates); i >= 0 {
		return Choice{Index: i, Cost: float64(candidates[i].InFlight), Why: "its session's rank"}
	}
	return p.Policy.Pick(req, candidates)
}

// home returns the candidate that keeps the request's session, or -1.
func home(req *Request, candidates []Candidate) int {
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
	// With few requests in flight the mean is below one, and any rank with a request would be above it.
	bound := max(loadBound*float64(total)/float64(len(candidates)), 1)
	if full || float64(c.InFlight) > bound {
		return -1
	}
	return at
}

// Unwrap returns the policy that scores candidates: p itself, or what it wraps.
func Unwrap(p Policy) Policy {
	if s, ok := p.(Sticky); ok {
		return s.Policy
	}
	return p
}
