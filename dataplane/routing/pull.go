package routing

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// PullHints sends pull hints to nodes: the pages of a request on its way to them that they
// should pull from another node's tier.
type PullHints interface {
	// Hint copies the parts of h that it needs and returns at once. It must not block or
	// allocate; it drops hints that it cannot take.
	Hint(h PullHint)
}

// PullHint names the pages that a node should pull.
type PullHint struct {
	Place    uint32 // of the node, as in worker.Place
	From     uint32 // place of the node that is expected to have the pages; 0 is unknown
	PageSize int    // tokens in a page of the engine's prefix cache; 0 is unknown
	Have     int    // leading tokens that the rank holds itself
	// Tokens are the prompt's leading ones, to the end of the pages; the caller owns them.
	TierQuery
}

// Fetch is the part of a prompt that the choice expects from KV tiers, in tokens behind
// Decision.Cached.
type Fetch struct {
	Tier   int    // from the tier of the rank's node
	Remote int    // behind these, from a peer's
	From   uint32 // place of that peer
	upto   int    // leading tokens of the prompt at the rank afterwards; 0: none are fetched
	have   int    // of these, tokens that the rank holds itself
}

// Tokens returns the number of fetched tokens.
func (f *Fetch) Tokens() int { return f.Tier + f.Remote }

// FetchedOf returns the tokens that came from KV tiers of an answer's cached tokens: those
// beyond the rank's own, up to the expected number.
func (d *Decision) FetchedOf(cached int) int {
	return min(max(cached-d.Cached, 0), d.Fetch.Tokens())
}

// fetchOf returns the tokens that a policy expects the decision's rank to fetch.
func fetchOf(f *facts, p *Prompt, d *Decision, req policy.Request, by policy.Policy, links *policy.Links) (g Fetch) {
	at := d.Choice.Index
	c := &f.candidates[at]
	if c.Tier|c.Remote == 0 {
		return g
	}
	fetcher, ok := by.(policy.Fetcher)
	if !ok {
		return g
	}
	candidates := f.candidates // that the rank was compared with
	switch {
	case d.Decode != nil:
		candidates, at = f.candidates[f.alone:], at-f.alone
	case len(f.decodes) > 0:
		candidates = f.candidates[:f.alone]
	}
	req.Stored = true
	if g.Tier, g.Remote = fetcher.Fetched(req, candidates, at); g.Tokens() == 0 {
		return g
	}
	g.have, g.upto = c.Cached, c.Cached+g.Tokens()
	if g.Remote > 0 {
		g.From = f.tiers.source(p, d.Rank, g.upto, links)
	}
	// The candidate's Cached is discounted by trust: the discounted tokens are counted twice.
	twice := max(d.Cached-c.Cached, 0)
	g.Remote = max(g.Remote-max(twice-g.Tier, 0), 0)
	g.Tier = max(g.Tier-twice, 0)
	return g
}

// pullHint returns the hint for the decision's node.
func pullHint(p *Prompt, d *Decision) PullHint {
	info := d.Rank.Worker.Info()
	return PullHint{
		Place: d.Rank.Worker.NodeNumber(), From: d.Fetch.From, PageSize: pageSize(info), Have: d.Fetch.have,
		TierQuery: TierQuery{Model: info.Model(), Tokens: p.Tokens[:d.Fetch.upto], LoRA: p.LoRA, Salt: p.Salt},
	}
}
