package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Hints tells nodes which pages they should pull from another node's tier: those of a request that is on its way to them.
type Hints interface {
	// Hint copies what it needs of h and returns at once. It must not block or allocate; what it cannot take it drops.
	Hint(h Hint)
}

// Hint is what a node should pull.
type Hint struct {
	Place    uint32 // of the node; as in worker.Place
	From     uint32 // of the node whose tier is expected to have it; 0 is not known
	PageSize int    // tokens of a page of the engine's cache; 0 is unknown
	Have     int    // leading tokens that the rank holds itself
	Asked           // Tokens are the prompt's leading ones, as far as the pages go; they belong to the caller
}

// Fetch is what of a prompt the choice reckons to come from KV tiers, in tokens behind Decision.Cached.
type Fetch struct {
	Tier   int    // from that of the rank's node
	Remote int    // behind these, from a peer's
	From   uint32 // place of that peer
	upto   int    // leading tokens of the prompt that are there then; 0: nothing is fetched
	have   int    // of these, those that the rank holds
}

// Tokens is what is fetched in all.
func (f *Fetch) Tokens() int { return f.Tier + f.Remote }

// FetchedOf returns how many of an answer's cached tokens came from KV tiers, as far as some were expected to: those beyond what the rank was
// to hold itself.
func (d *Decision) FetchedOf(cached int) int {
	return min(max(cached-d.Cached, 0), d.Fetch.Tokens())
}

// fetchOf finds what the policy reckons that the decision's rank will fetch.
func (r *Router) fetchOf(s *Scratch, p *Prompt, d *Decision, req policy.Request) (f Fetch) {
	at := d.Choice.Index
	c := &s.candidates[at]
	if c.Tier|c.Remote == 0 {
		return f
	}
	fetcher, ok := r.Policy().(policy.Fetcher)
	if !ok {
		return f
	}
	candidates := s.candidates // that the rank was compared with
	switch {
	case d.Decode != nil:
		candidates, at = s.candidates[s.alone:], at-s.alone
	case len(s.decodes) > 0:
		candidates = s.candidates[:s.alone]
	}
	req.Stored = true
	if f.Tier, f.Remote = fetcher.Fetched(req, candidates, at); f.Tokens() == 0 {
		return f
	}
	f.have, f.upto = c.Cached, c.Cached+f.Tokens()
	if f.Remote > 0 {
		f.From = r.source(s, p, d.Rank, f.upto)
	}
	// Cached was credited less than is known to be there: that much of it is counted twice.
	twice := max(d.Cached-c.Cached, 0)
	f.Remote = max(f.Remote-max(twice-f.Tier, 0), 0)
	f.Tier = max(f.Tier-twice, 0)
	return f
}

// source finds the place of the peer that has so many leading tokens, and of several the one with the fastest link.
func (r *Router) source(s *Scratch, p *Prompt, rank *worker.Rank, upto int) (from uint32) {
	links, place, info := r.links.Load(), rank.Worker.NodeNumber(), rank.Worker.Info()
	own := slices.IndexFunc(s.shelves, func(f Shelf) bool { return f.Place == place && f.Open })
	best := 0.0
	for i := range s.shelves {
		shelf := &s.shelves[i]
		hop := links.Between(shelf.Place, place)
		if shelf.Place == place || hop.Broken || hop.Speed <= best || (own >= 0 && shelf.Kind != s.shelves[own].Kind) {
			continue
		}
		if usable(p, info, shelf.Tokens) >= upto {
			from, best = shelf.Place, hop.Speed
		}
	}
	return from
}

// hint tells the decision's node what to pull.
func (r *Router) hint(p *Prompt, d *Decision) {
	info := d.Rank.Worker.Info()
	r.Hints.Hint(Hint{
		Place: d.Rank.Worker.NodeNumber(), From: d.Fetch.From, PageSize: pageSize(info), Have: d.Fetch.have,
		Asked: Asked{Model: info.Model(), Tokens: p.Tokens[:d.Fetch.upto], LoRA: p.LoRA, Salt: p.Salt},
	})
}
