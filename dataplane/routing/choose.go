package routing

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// draw is the randomness and the turn of a choice. The same state and draw give the same
// choice.
type draw struct{ turn, seed uint64 }

// Eligible returns the ranks that may take the prompt, however loaded they are: the candidates
// of Pick. They are valid until the next use of s.
func (r *Router) Eligible(s *Scratch, p *Prompt) ([]*worker.Rank, error) {
	err := s.find(r.registry.Snapshot(), p, nil, time.Now())
	return s.ranks, err
}

// HasUntried reports whether a healthy rank other than tried may take the prompt: one that
// answers its probes, with a breaker that admits a request. Unlike Pick it takes no trial of a
// breaker.
func (r *Router) HasUntried(s *Scratch, p *Prompt, tried []*worker.Rank) bool {
	return s.find(r.registry.Snapshot(), p, tried, time.Now()) == nil && s.healthy()
}

// Pick chooses a rank for the prompt, never one of tried.
func (r *Router) Pick(s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	by := draw{turn: r.turn.Add(1) - 1, seed: r.seed()}
	s.shared.known = false
	for {
		d, req, err := r.choose(s, p, tried, by)
		if err != nil {
			return d, err
		}
		if s.admit(&d) { // else another request took the trial of its breaker first
			r.Exclusions.count(s.faulty, d.Overruled)
			d.Fetch = fetchOf(s, p, &d, req, r.Policy(), r.links.Load())
			r.recent.keep(s, p, &d, req, r.Policy(), len(tried) > 0)
			return d, nil
		}
	}
}

// choose finds the facts about the eligible ranks and lets the policy pick.
func (r *Router) choose(s *Scratch, p *Prompt, tried []*worker.Rank, by draw) (Decision, policy.Request, error) {
	d, now := Decision{session: sessionUse{name: p.Session}}, time.Now()
	if err := s.find(r.registry.Snapshot(), p, tried, now); err != nil {
		return Decision{}, policy.Request{}, err
	}
	approximate := r.policy.Load().approximate()
	if s.index.matched = p.Exact && !p.Opaque && p.ExtraKey == "" && !approximate; s.index.matched {
		r.match(s, p, &d, now)
	}
	r.Approx.match(&s.approx, p, s.ranks, approximate)
	r.Known.find(s, p, &d, r.Approx, &r.matcher)
	if len(s.decodes) > 0 {
		s.fillDecodes(p)
	}
	s.tiers.find(r.Tiers, p, s.ranks)
	r.fill(s, p)
	r.Known.price(s, &d)
	req := policy.Request{
		Tokens: p.Len() + p.Rest, Exact: p.Exact, Turn: by.turn, Seed: by.seed, Stored: len(s.tiers.found) > 0,
		Chunk: s.ranks[0].Worker.Info().Chunk, Answer: r.answers.mean(),
	}
	if r.Peers != nil {
		req.Routers = r.Peers.Routers()
	}
	if r.Sessions != nil && p.Session != 0 {
		req.SessionRank = r.Sessions.rank(p.Session)
	}
	r.pick(s, p, &d, req)
	r.Approx.prepare(&s.approx, p, d.Rank, d.Source)
	d.Overruled = s.overruled(&d)
	return d, req, nil
}

// pick lets the policy pick a rank or a pair. Where both can serve, the policy picks one of
// each, and predicted times decide between them: a policy that takes turns or draws has no
// measure for both.
func (r *Router) pick(s *Scratch, p *Prompt, d *Decision, req policy.Request) {
	if len(s.decodes) == 0 {
		s.decide(d, p, r.Policy().Pick(req, s.candidates))
		return
	}
	s.pair.links = r.links.Load()
	l := s.pairCandidates()
	prefill, decode := policy.PickPair(r.Policy(), req, &l)
	s.pair.first, s.pair.second = prefill.Index, decode.Index
	if s.alone > 0 {
		single, least := r.Policy().Pick(req, s.candidates[:s.alone]), cmp.Or(r.MinUncached, DefaultMinUncached)
		if why := policy.Alone(r.Policy(), req, s.candidates[:s.alone], single.Index, &l, prefill.Index, decode.Index, least); why != "" {
			single.Reason = why
			s.decide(d, p, single)
			return
		}
	}
	prefill.Index += s.alone
	s.decide(d, p, prefill)
	d.Decode, d.DecodeChoice = s.decodes[decode.Index], decode
	d.output = p.Output
}

// Explain returns the choice that Pick would make, and changes nothing: its turn is the one of
// the next request. seed is the random number of Pick; with the same state and seed both choose
// the same.
func (r *Router) Explain(s *Scratch, p *Prompt, seed uint64) Explanation {
	var e Explanation
	s.shared.known = false
	e.Decision, e.Request, e.Err = r.choose(s, p, nil, draw{turn: r.turn.Load(), seed: seed})
	if e.Err != nil {
		s.ranks, s.candidates, s.decodes, s.alone = s.ranks[:0], s.candidates[:0], s.decodes[:0], 0
	}
	e.Options = optionsOf(r.Policy())
	explainCandidates(&e, s, r.Policy())
	explainPairs(&e, s)
	e.Turn = r.Known.explain(s, p, &e.Decision, r.registry.Snapshot().Ranks)
	now := time.Now()
	for _, rank := range r.registry.Snapshot().Ranks {
		if !slices.Contains(s.ranks, rank) && !slices.Contains(s.decodes, rank) {
			e.Ranks = append(e.Ranks, Considered{
				Rank: rank, Role: rank.Worker.Role(), Excluded: excluded(rank, p, len(s.decodes) > 0, now), Load: rank.Load.View(now),
			})
		}
	}
	return e
}

// Preview returns the choice that Pick would make. Like Explain it changes nothing.
func Preview(r *Router, s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	s.shared.known = false
	d, _, err := r.choose(s, p, tried, draw{turn: r.turn.Load(), seed: r.seed()})
	return d, err
}

// FirstToken returns the time until the first token of a prompt that is sent now, as far as it is
// known: 0 where nothing is. Like Explain it changes nothing.
func FirstToken(r *Router, s *Scratch, p *Prompt) time.Duration {
	d, err := Preview(r, s, p, nil)
	if err != nil {
		return 0
	}
	load := d.Rank.Load.View(time.Now())
	if load.Rate <= 0 {
		return 0
	}
	tokens := load.Pending - load.ClaimedTokens // a request is not refused for their sake
	if d.Exact && d.Source == Events {
		tokens += int64(d.Uncached())
	}
	return time.Duration(float64(tokens) / load.Rate * float64(time.Second))
}

// match finds the overlap of ranks by events and by predictions, those of other routers
// included.
func (r *Router) match(s *Scratch, p *Prompt, d *Decision, now time.Time) {
	model := s.ranks[0].Worker.Info().Model()
	r.inFlight.expire(now)
	r.matcher.match(&s.index, model, p, d)
	if s.index.stale(s.ranks, now, r.inFlight.dropped.Load()) {
		r.inFlight.dropStale()
		s.index.clear()
		r.matcher.match(&s.index, model, p, d)
	}
	if d.block > 0 && r.inFlight.shares.Load() > 0 {
		r.matcher.matchShared(&s.index, s.shared.of(model, p), p, d.block)
	}
}

// fill makes the candidates of s.ranks.
func (r *Router) fill(s *Scratch, p *Prompt) {
	n := len(s.ranks)
	s.candidates, s.overlaps = slices.Grow(s.candidates[:0], n)[:n], slices.Grow(s.overlaps[:0], n)[:n]
	s.told = slices.Grow(s.told[:0], n)[:n]
	s.credits, s.loads = slices.Grow(s.credits[:0], n)[:n], slices.Grow(s.loads[:0], n)[:n]
	tree := r.Approx != nil && r.policy.Load().approximate()
	for i, rank := range s.ranks {
		o, f, told := s.overlap(i, p)
		// A prediction is known from dispatch and needs no trust.
		credit, load := s.credit(i), &s.loads[i]
		rank.Load.ViewInto(load, s.now)
		s.overlaps[i], s.credits[i], s.told[i] = o, credit, told
		// Field by field: a literal is made on the stack and copied, which doubles the time of
		// this loop.
		c := &s.candidates[i]
		c.ID, c.Predicted = rank.IDHash(), f.tokens
		c.Cached, c.Host, c.Disk = trusted(o.tokens, credit), trusted(o.tokens-o.gpu, credit), 0
		c.Pending, c.InFlight, c.Waiting = load.Pending, load.InFlight, load.Waiting
		c.Rate, c.Pool, c.Used, c.MaxRunning = load.Rate, load.Pool, load.Used, load.Most
		c.Age, c.Tree = silence(rank, load, s.now), 0
		c.Tier, c.Remote, c.TierTime, c.RemoteTime = 0, 0, 0, 0
		c.Weight, c.FullRate, c.Live = 0, 0, 0
		if s.judged {
			if v := rank.Worker.Verdict(s.now); v != 0 {
				c.Weight, c.FullRate = weight(v, p.Len()+p.Rest-max(c.Cached, c.Predicted)), rank.FullSpeed()
			}
		}
		if load.Pool == 0 {
			c.Pool = int64(rank.Worker.Info().MaxTokens)
		}
		if tree {
			c.Tree = r.Approx.Held(rank)
		}
	}
	s.index.clear()
	s.tiers.credit(s.candidates, s.ranks, p, r.links.Load())
}

const (
	// chunkTokens is the usual chunk of a prefill: SGLang's default on large GPUs.
	chunkTokens = 8192
	// activationBytes is the memory of a chunk's token: a whole chunk needs
	// worker.ScarceMemory.
	activationBytes = worker.ScarceMemory / chunkTokens
	// pressedShare is the share of its speed of a rank without free memory, as in package
	// health.
	pressedShare = 0.5
)

// weight is the share of its speed that a worker has for a prompt with so many tokens to
// compute: less where these may need more memory than its GPU has left.
func weight(v worker.Verdict, tokens int) float64 {
	w := v.Weight()
	if need := int64(min(tokens, chunkTokens)) * activationBytes; v.Free() > 0 && v.Free() < need {
		w = min(w, pressedShare+(1-pressedShare)*float64(v.Free())/float64(need))
	}
	return w
}
