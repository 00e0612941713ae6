package policy

// fetch is a part of a prompt that a candidate could fetch from KV tiers instead of computing
// it.
type fetch struct {
	tokens  float64
	seconds float64
}

// stored reports whether there are tokens to fetch.
func (c *Candidate) stored() bool { return c.Tier|c.Remote != 0 }

// fetched returns the best part of the prompt to fetch, where a computed token costs token
// seconds: none, the part in the node's own tier, or that and the part of a peer. Tokens come
// in the prompt's order, so the peer's are useless without the node's own.
//
// So n tokens of b bytes are pulled over a link of s bytes per second where b / s is less than
// 1 / rate. At 128 KiB a token and 16,000 tokens per second the two are equal at 2.1 GB/s: a
// prefix of 2 GB, 16,384 tokens, then takes a second either way, and over 12.5 GB/s a sixth of
// one.
//
// Pulls begin when a request reaches a worker, and so go on while it waits in the queue.
// Counting only the part that the queue does not hide makes no difference: within 1 % by replay
// of the conversation trace, and 3 % better where links are five times slower than the prefill.
func (c *Candidate) fetched(token float64) (best fetch) {
	own := fetch{float64(c.Tier), float64(c.TierTime)}
	for _, s := range [...]fetch{own, {own.tokens + float64(c.Remote), own.seconds + float64(c.RemoteTime)}} {
		if s.tokens*token-s.seconds > best.tokens*token-best.seconds {
			best = s
		}
	}
	return best
}

// withStored is tokens for a candidate that could fetch: tokens to compute, the cost of copies
// in tokens of prefill, and the part to fetch. token is the seconds of a computed token, later
// the number of other requests that it delays.
func (p *KV) withStored(req *Request, c *Candidate, token, later float64) (compute, copied float64, best fetch) {
	compute, copied = p.tokens(req, c)
	plain := *c
	plain.Predicted = 0 // predicted tokens reach another length than cached ones
	base, copies := p.tokens(req, &plain)
	s := c.fetched(token * (1 + later) * p.OverlapWeight)
	base = max(base-p.OverlapWeight*s.tokens, 0)
	if base*(1+later)*token+copies*token+s.seconds < compute*(1+later)*token+copied*token {
		return base, copies, s
	}
	return compute, copied, fetch{}
}

// Fetcher is a policy that uses KV tiers.
type Fetcher interface {
	// Fetched returns the tokens of a candidate's Tier and Remote that the policy expects to be
	// fetched and not computed.
	Fetched(req Request, candidates []Candidate, i int) (tier, remote int)
}

var (
	_ Fetcher = KV{}
	_ Fetcher = Sticky{}
)

// Fetched implements Fetcher.
func (p KV) Fetched(req Request, candidates []Candidate, i int) (tier, remote int) {
	c := &candidates[i]
	if !req.Stored || !c.stored() {
		return 0, 0
	}
	f := survey(&req, candidates)
	token, slower := f.pace(c)
	_, _, best := p.computed(&f, &req, c, token*slower)
	tier = min(int(best.tokens), int(c.Tier))
	return tier, int(best.tokens) - tier
}

// Fetched implements Fetcher by the wrapped policy.
func (p Sticky) Fetched(req Request, candidates []Candidate, i int) (tier, remote int) {
	if f, ok := p.Policy.(Fetcher); ok {
		return f.Fetched(req, candidates, i)
	}
	return 0, 0
}
