package policy

// shelf is a part of a prompt that a candidate could fetch from a KV tier instead of computing it.
type shelf struct {
	tokens  float64
	seconds float64
}

// stored reports whether there is anything to fetch.
func (c *Candidate) stored() bool { return c.Tier|c.Remote != 0 }

// fetched finds what of the prompt is best fetched, where a computed token costs token seconds: nothing, what the node's own tier holds, or
// that and what comes from a peer. Tokens come in the prompt's order, so the peer's are of no use without the node's own.
//
// So n tokens of b bytes are pulled over a link of s bytes a second where b / s is less than 1 / rate. At 128 KiB a token and 16,000 tokens a
// second the two are equal at 2.1 GB/s: a prefix of 2 GB, 16,384 tokens, then takes a second either way, and over 12.5 GB/s a sixth of one.
//
// Pulls begin when a request comes to a worker, and so go on while it waits in the queue. Counting only what is not hidden behind the queue makes
// no difference: by replay of the conversation trace within 1 %, and 3 % better where links are five times slower than the prefill.
func (c *Candidate) fetched(token float64) (best shelf) {
	own := shelf{float64(c.Tier), float64(c.TierTime)}
	for _, s := range [...]shelf{own, {own.tokens + float64(c.Remote), own.seconds + float64(c.RemoteTime)}} {
		if s.tokens*token-s.seconds > best.tokens*token-best.seconds {
			best = s
		}
	}
	return best
}

// withStored is tokens for a candidate that could fetch: what it would compute, what copies cost in tokens of prefill, and what is fetched.
// token is what a token takes to compute, later how many others pay for it.
func (p *KV) withStored(req *Request, c *Candidate, token, later float64) (compute, copied float64, best shelf) {
	compute, copied = p.tokens(req, c)
	plain := *c
	plain.Predicted = 0 // what is in the making reaches another length than what is here
	base, copies := p.tokens(req, &plain)
	s := c.fetched(token * (1 + later) * p.OverlapWeight)
	base = max(base-p.OverlapWeight*s.tokens, 0)
	if base*(1+later)*token+copies*token+s.seconds < compute*(1+later)*token+copied*token {
		return base, copies, s
	}
	return compute, copied, shelf{}
}

// Fetcher is a policy that reckons with KV tiers.
type Fetcher interface {
	// Fetched returns how many tokens of a candidate's Tier and Remote the policy reckons will be fetched and not computed.
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
	f := survey(candidates)
	token, slower := f.pace(c)
	_, _, best := p.computed(&f, &req, c, token*slower)
	tier = min(int(best.tokens), int(c.Tier))
	return tier, int(best.tokens) - tier
}

// Fetched implements Fetcher: it reckons as the policy that it wraps.
func (p Sticky) Fetched(req Request, candidates []Candidate, i int) (tier, remote int) {
	if f, ok := p.Policy.(Fetcher); ok {
		return f.Fetched(req, candidates, i)
	}
	return 0, 0
}
