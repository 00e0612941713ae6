package policies

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// With Config.TierTokens each node keeps a copy of every page that its workers computed, in
// host memory of its own: warmpath node --kv-tier. A request looks there when it reaches a
// worker, independent of the router's knowledge. Pages of a peer's tier that this one lacks are
// pulled over the network, one request after the other, and the request enters no batch before
// they are there (SGLang's wait_complete). Pages from the tier are copied to the GPU like pages
// of a worker's own host memory. Prompts of less than 256 tokens, which SGLang does not look
// up, are looked up.

// nodeTier is the KV tier of one node.
type nodeTier struct {
	tier
	plan   *plan
	all    *[]*nodeTier // of all nodes
	link   clock        // of one token from another one; 0: nothing is pulled
	free   clock        // when all that was asked for has come
	pulls  []pull       // under way, by time
	pulled int64        // tokens
}

// pull is the first upto pages of a request's prompt on their way.
type pull struct {
	t     *task
	upto  int32
	ready clock
}

// settle stores the pages that have come by now.
func (d *nodeTier) settle(now clock) {
	for len(d.pulls) > 0 && d.pulls[0].ready <= now {
		d.store(d.pulls[0].t.path, d.pulls[0].upto)
		d.pulls = d.pulls[1:]
	}
}

// supply returns the pages that t can have at a worker of this node: have pages when they are
// ready, here already or on their way for another request, then those up to upto from another
// node's tier.
func (d *nodeTier) supply(w *worker, t *task, now clock) (have int32, ready clock, from *nodeTier, upto int32) {
	usable := w.usable(t.job)
	have, ready = max(w.cache.match(t.path, usable), d.cache.match(t.path, usable)), now
	if w.host != nil {
		have = max(have, w.host.cache.match(t.path, usable))
	}
	for i := range d.pulls {
		p := &d.pulls[i]
		if n := min(d.plan.shared(t, p.t, usable), p.upto); n > have && p.ready > now {
			have, ready = n, p.ready
		}
	}
	upto = have
	if d.link == 0 {
		return have, ready, nil, upto
	}
	for _, other := range *d.all {
		if n := other.cache.match(t.path, usable); other != d && n > upto {
			from, upto = other, n
		}
	}
	return have, ready, from, upto
}

// arrival is the time when pages ordered now have come.
func (d *nodeTier) arrival(pages int32, now clock) clock {
	return max(now, d.free) + clock(int(pages)*d.plan.page)*d.link
}

// order pulls the pages that t lacks, and returns the time when all are here.
func (d *nodeTier) order(w *worker, t *task, now clock) clock {
	d.settle(now)
	have, ready, from, upto := d.supply(w, t, now)
	if from == nil {
		return ready
	}
	from.cache.touch(t.path, upto)
	d.free = d.arrival(upto-have, now)
	d.pulls = append(d.pulls, pull{t, upto, d.free})
	d.pulled += int64(int(upto-have) * d.plan.page)
	return max(ready, d.free)
}

// nodeTiers are the KV tiers of all nodes.
type nodeTiers struct {
	*run
	byNode []*nodeTier // by node; none without tiers
}

// build gives the nodes of the first workers their tiers.
func (s *nodeTiers) build() {
	if s.cfg.TierTokens == 0 {
		return
	}
	link := clock(0)
	if s.cfg.LinkTokensPerSecond > 0 {
		link = max(clock(float64(second)/s.cfg.LinkTokensPerSecond), 1)
	}
	for i, w := range s.targets() {
		at := i / s.cfg.NodeWorkers
		if at == len(s.byNode) {
			d := &nodeTier{plan: s.plan, all: &s.byNode, link: link}
			d.tier = tier{cache: newCache(s.plan, func(n, held int32) { s.event(at, n, held) }), pool: int32(s.cfg.TierTokens / s.page)}
			s.byNode = append(s.byNode, d)
		}
		w.nodeTier = s.byNode[at]
	}
	for _, r := range s.replicas {
		if !s.ablated.tiers && s.pick != nil {
			r.tierView, r.tierOverlaps = newView(s.plan, len(s.byNode)), make([]overlap, len(s.byNode))
		}
	}
}

// event tells every replica of a change in a node's tier.
func (s *nodeTiers) event(node int, n, held int32) {
	for _, r := range s.replicas {
		if r.tierView != nil {
			r.tierView.expect(change{at: s.time.now + ticks(s.cfg.EventDelay+s.cfg.gathered), worker: int32(node), node: n, held: held})
		}
	}
}

// stored finds the part of t's prompt in tiers, as r knows it; false: none.
func (s *nodeTiers) stored(r *replica, t *task) (some bool) {
	if r.tierView == nil {
		return false
	}
	r.tierView.catchUp(s.time.now)
	r.tierView.match(r.tierOverlaps, t.path, int32((t.input-1)/s.page))
	for i := range r.tierOverlaps {
		some = some || r.tierOverlaps[i].held > 0
	}
	return some
}

// offer fills candidate i with the tokens that it could fetch, as package routing does: of its
// own node's tier, and behind those of the peer with most.
func (s *nodeTiers) offer(r *replica, i int) {
	c, node := &r.candidates[i], i/s.cfg.NodeWorkers
	here := max(c.Cached, int(r.tierOverlaps[node].held)*s.page)
	c.Tier = int32(here - c.Cached)
	c.TierTime = float32(float64(c.Tier) / s.cfg.Service.HostTokensPerSecond)
	if s.cfg.LinkTokensPerSecond <= 0 {
		return
	}
	for other := range r.tierOverlaps {
		if more := int(r.tierOverlaps[other].held)*s.page - here; other != node && more > int(c.Remote) {
			c.Remote = int32(more)
			c.RemoteTime = float32(float64(more) * (1/s.cfg.LinkTokensPerSecond + 1/s.cfg.Service.HostTokensPerSecond))
		}
	}
}

// fetches returns the tokens that a policy expects its choice to fetch.
func fetches(p policy.Policy, req policy.Request, some candidates, index int) int {
	if f, ok := p.(policy.Fetcher); ok && req.Stored {
		tier, remote := f.Fetched(req, some, index)
		return tier + remote
	}
	return 0
}
