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
// of Pick. They are valid until the next use of e.
func (r *Router) Eligible(e *Eligible, p *Prompt) ([]*worker.Rank, error) {
	err := e.find(r.registry.Snapshot(), p, nil, time.Now())
	return e.ranks, err
}

// HasUntried reports whether a healthy rank other than tried may take the prompt: one that
// answers its probes, with a breaker that admits a request. Unlike Pick it takes no trial of a
// breaker.
func (r *Router) HasUntried(p *Prompt, tried []*worker.Rank) bool {
	var e Eligible // rare
	return e.find(r.registry.Snapshot(), p, tried, time.Now()) == nil && e.healthy()
}

// Pick chooses a rank for the prompt, never one of tried.
func (r *Router) Pick(s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	by := draw{turn: r.turn.Add(1) - 1, seed: r.seed()}
	f := r.takeFacts()
	for {
		d, req, err := r.choose(f, s, p, tried, by)
		if err == nil && !f.admit(&d) {
			continue // another request took the trial of its breaker first
		}
		if err == nil {
			r.Exclusions.count(f.faulty, d.Overruled)
			d.Fetch = fetchOf(f, p, &d, req, r.Policy(), r.links.Load())
			r.recent.keep(f, p, &d, req, r.Policy(), len(tried) > 0)
		}
		r.giveBack(f)
		return d, err
	}
}

// choose finds the facts about the eligible ranks and lets the policy pick.
func (r *Router) choose(f *facts, s *Scratch, p *Prompt, tried []*worker.Rank, by draw) (Decision, policy.Request, error) {
	d, now := Decision{session: sessionUse{name: p.Session}}, time.Now()
	s.shared.known = false
	if err := f.find(r.registry.Snapshot(), p, tried, now); err != nil {
		return Decision{}, policy.Request{}, err
	}
	approximate := r.policy.Load().approximate()
	if f.index.matched = p.Exact && !p.Opaque && p.ExtraKey == "" && !approximate; f.index.matched {
		r.match(f, s, p, &d, now)
	}
	r.Approx.match(&f.approx, s, p, f.ranks, approximate)
	r.Known.find(f, s, p, &d, r.Approx, &r.matcher)
	if len(f.decodes) > 0 {
		f.fillDecodes(p)
	}
	f.tiers.find(r.Tiers, p, f.ranks)
	r.fill(f, p)
	r.Known.price(f, s, &d)
	req := policy.Request{
		Tokens: p.Len() + p.Rest, Exact: p.Exact, Turn: by.turn, Seed: by.seed, Stored: len(f.tiers.found) > 0,
		Chunk: f.ranks[0].Worker.Info().Chunk, Answer: r.answers.mean(),
	}
	if r.Peers != nil {
		req.Routers = r.Peers.Routers()
	}
	if r.Sessions != nil && p.Session != 0 {
		req.SessionRank = r.Sessions.rank(p.Session)
	}
	r.pick(f, p, &d, req)
	r.Approx.prepare(s, p, d.Rank, d.Source)
	d.Overruled = f.overruled(&d)
	return d, req, nil
}

// pick lets the policy pick a rank or a pair. Where both can serve, the policy picks one of
// each, and predicted times decide between them: a policy that takes turns or draws has no
// measure for both.
func (r *Router) pick(f *facts, p *Prompt, d *Decision, req policy.Request) {
	if len(f.decodes) == 0 {
		f.decide(d, p, r.Policy().Pick(req, f.candidates))
		return
	}
	f.pair.links = r.links.Load()
	l := f.pairCandidates()
	prefill, decode := policy.PickPair(r.Policy(), req, &l)
	f.pair.first, f.pair.second = prefill.Index, decode.Index
	if f.alone > 0 {
		single, least := r.Policy().Pick(req, f.candidates[:f.alone]), cmp.Or(r.MinUncached, DefaultMinUncached)
		if why := policy.Alone(r.Policy(), req, f.candidates[:f.alone], single.Index, &l, prefill.Index, decode.Index, least); why != "" {
			single.Reason = why
			f.decide(d, p, single)
			return
		}
	}
	prefill.Index += f.alone
	f.decide(d, p, prefill)
	d.Decode, d.DecodeChoice = f.decodes[decode.Index], decode
	d.output = p.Output
}

// Explain returns the choice that Pick would make, and changes nothing: its turn is the one of
// the next request. seed is the random number of Pick; with the same state and seed both choose
// the same.
func (r *Router) Explain(s *Scratch, p *Prompt, seed uint64) Explanation {
	var e Explanation
	f := r.takeFacts()
	e.Decision, e.Request, e.Err = r.choose(f, s, p, nil, draw{turn: r.turn.Load(), seed: seed})
	if e.Err != nil {
		f.ranks, f.candidates, f.decodes, f.alone = f.ranks[:0], f.candidates[:0], f.decodes[:0], 0
	}
	e.Options = optionsOf(r.Policy())
	explainCandidates(&e, f, r.Policy())
	explainPairs(&e, f)
	e.Turn = r.Known.explain(s, p, &e.Decision, r.registry.Snapshot().Ranks)
	now := time.Now()
	for _, rank := range r.registry.Snapshot().Ranks {
		if !slices.Contains(f.ranks, rank) && !slices.Contains(f.decodes, rank) {
			e.Ranks = append(e.Ranks, Considered{
				Rank: rank, Role: rank.Worker.Role(), Excluded: excluded(rank, p, len(f.decodes) > 0, now), Load: rank.Load.View(now),
			})
		}
	}
	r.giveBack(f)
	return e
}

// Preview returns the choice that Pick would make. Like Explain it changes nothing.
func Preview(r *Router, s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	f := r.takeFacts()
	d, _, err := r.choose(f, s, p, tried, draw{turn: r.turn.Load(), seed: r.seed()})
	r.giveBack(f)
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
func (r *Router) match(f *facts, s *Scratch, p *Prompt, d *Decision, now time.Time) {
	model := f.ranks[0].Worker.Info().Model()
	r.inFlight.expire(now)
	r.matcher.match(&f.index, s, model, p, d)
	if f.index.stale(f.ranks, now, r.inFlight.dropped.Load()) {
		r.inFlight.dropStale()
		f.index.clear()
		r.matcher.match(&f.index, s, model, p, d)
	}
	if d.block > 0 && r.inFlight.shares.Load() > 0 {
		r.matcher.matchShared(&f.index, s.shared.of(model, p), p, d.block)
	}
}

// fill makes the candidates of f.ranks.
func (r *Router) fill(f *facts, p *Prompt) {
	n := len(f.ranks)
	f.candidates, f.overlaps = slices.Grow(f.candidates[:0], n)[:n], slices.Grow(f.overlaps[:0], n)[:n]
	f.told = slices.Grow(f.told[:0], n)[:n]
	f.credits, f.loads = slices.Grow(f.credits[:0], n)[:n], slices.Grow(f.loads[:0], n)[:n]
	tree := r.Approx != nil && r.policy.Load().approximate()
	for i, rank := range f.ranks {
		o, predicted, told := f.overlap(i, p)
		// A prediction is known from dispatch and needs no trust.
		credit, load := f.credit(i), &f.loads[i]
		rank.Load.ViewInto(load, f.now)
		f.overlaps[i], f.credits[i], f.told[i] = o, credit, told
		// Field by field: a literal is made on the stack and copied, which doubles the time of
		// this loop.
		c := &f.candidates[i]
		c.ID, c.Predicted = rank.IDHash(), predicted.tokens
		c.Cached, c.Host, c.Disk = trusted(o.tokens, credit), trusted(o.tokens-o.gpu, credit), 0
		c.Pending, c.InFlight, c.Waiting = load.Pending, load.InFlight, load.Waiting
		c.Rate, c.Pool, c.Used, c.MaxRunning = load.Rate, load.Pool, load.Used, load.Most
		c.Age, c.Tree = silence(rank, load, f.now), 0
		c.Tier, c.Remote, c.TierTime, c.RemoteTime = 0, 0, 0, 0
		c.Weight, c.FullRate, c.Live = 0, 0, 0
		if f.judged {
			if v := rank.Worker.Verdict(f.now); v != nil {
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
	f.index.clear()
	f.tiers.credit(f.candidates, f.ranks, p, r.links.Load())
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
func weight(v *worker.Verdict, tokens int) float64 {
	if need := int64(min(tokens, chunkTokens)) * activationBytes; v.Free > 0 && v.Free < need {
		return min(v.Weight, pressedShare+(1-pressedShare)*float64(v.Free)/float64(need))
	}
	return v.Weight
}
