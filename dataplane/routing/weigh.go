package routing

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// draw is what a choice owes to chance and order. The same state and draw give
// the same choice.
type draw struct{ turn, seed uint64 }

// Pick chooses a rank for the prompt, never one of tried.
func (r *Router) Pick(s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	by := draw{turn: r.turn.Add(1) - 1, seed: r.seed()}
	s.marked = false
	for {
		// Again, without it, where somebody else was faster to try a worker whose breaker is half open.
		d, req, err := r.chooseAny(s, p, tried, by)
		if o := r.Others; o != nil && err == nil && len(tried) == 0 && o.Active() {
			d, err = r.askOther(s, p, by, d, req)
		}
		if err != nil || s.admitted(&d) {
			if err == nil {
				r.Passed.take(s, &d)
				d.Fetch = r.fetchOf(s, p, &d, req)
			}
			return d, err
		}
	}
}

// choose finds out what the candidates have and lets the policy pick.
func (r *Router) choose(s *Scratch, p *Prompt, tried []*worker.Rank, by draw) (Decision, policy.Request, error) {
	d, now := Decision{session: p.Session}, time.Now()
	s.looked, s.expects = false, s.expects[:0]
	if err := r.gather(s, p, tried, now); err != nil {
		return Decision{}, policy.Request{}, err
	}
	if p.Exact && !p.Opaque && p.ExtraKey == "" && !r.believesAnswers() {
		r.expire(now)
		r.match(s, p, &d)
		r.expect(s, p, &d)
		if s.doubtful(now) {
			r.distrust()
			clear(s.byHolder)
			r.match(s, p, &d)
		}
	}
	r.believe(s, p)
	if len(s.decodes) > 0 {
		s.weighDecodes(p, now)
	}
	r.weigh(s, p, now)
	req := policy.Request{Tokens: p.Len(), Exact: p.Exact, Turn: by.turn, Seed: by.seed, Stored: len(s.shelves) > 0}
	switch {
	case r.chosen.Load().needs.Has(policy.NeedsFamily):
		req.Prefix = p.family(&r.families, len(s.ranks))
	case r.chosen.Load().needs.Has(policy.NeedsPrefix):
		req.Prefix = p.prefix()
	}
	if r.Sessions != nil && p.Session != 0 {
		req.Home = r.Sessions.rank(p.Session)
	}
	r.settle(s, p, &d, req)
	if len(s.ranks) > manyRanks && len(tried) == 0 && p.DP < 0 && p.LoRA == "" {
		r.keepFew(s, p, by.seed, now)
	}
	d.Overruled = s.overruled(&d)
	return d, req, nil
}

// weigh makes the candidates of s.ranks.
func (r *Router) weigh(s *Scratch, p *Prompt, now time.Time) {
	n, nanos := len(s.ranks), now.UnixNano()
	s.candidates, s.matches = slices.Grow(s.candidates[:0], n)[:n], slices.Grow(s.matches[:0], n)[:n]
	s.credits, s.loads = slices.Grow(s.credits[:0], n)[:n], slices.Grow(s.loads[:0], n)[:n]
	trees := r.Approx != nil && r.believesAnswers()
	for i, rank := range s.ranks {
		m, f := s.known(i, p)
		if len(s.expects) > 0 {
			f = s.expected(rank, p, f)
		}
		// What is in flight is known from dispatch, so it needs no trust.
		credit, load := s.credit(i, nanos), &s.loads[i]
		rank.Load.ViewInto(load, nanos)
		s.matches[i], s.credits[i] = m, credit
		// Field by field: a literal is made on the stack and copied, which costs as much as all else here.
		c := &s.candidates[i]
		c.ID, c.Predicted = rank.IDHash(), f.tokens
		c.Cached, c.Host, c.Disk = scaled(m.tokens, credit), scaled(m.tokens-m.gpu, credit), 0
		c.Pending, c.InFlight, c.Waiting = load.Pending, load.InFlight, load.Waiting
		c.Rate, c.Pool, c.Used, c.Most = load.Rate, load.Pool, load.Used, load.Most
		c.Age, c.Tree = silence(rank, load, nanos), 0
		c.Tier, c.Remote, c.TierTime, c.RemoteTime = 0, 0, 0, 0
		c.Weight, c.Full = 0, 0
		if s.judged {
			if v := rank.Worker.Verdict(nanos); v != 0 {
				c.Weight, c.Full = weight(v, p.Len()-max(c.Cached, c.Predicted)), rank.FullSpeed()
			}
		}
		if load.Pool == 0 {
			c.Pool = int64(rank.Worker.Info().MaxTokens)
		}
		if trees {
			c.Tree = r.Approx.Held(rank)
		}
	}
	clear(s.byHolder)
	r.shelve(s, p)
}

const (
	// chunkTokens is what is computed at once of a long prompt: SGLang's default on large GPUs.
	chunkTokens = 8192
	// activeBytes is what a token of it needs for activations: by it a whole chunk needs worker.ScarceMemory.
	activeBytes = worker.ScarceMemory / chunkTokens
	// pressed is the share of its speed that a rank without any free memory is left with: package health counts the same.
	pressed = 0.5
)

// weight is the share of its speed that a worker has for a prompt with so many tokens to compute: less where that may need more
// memory than its GPU has left.
func weight(v worker.Verdict, tokens int) float64 {
	w := v.Weight()
	if need := int64(min(tokens, chunkTokens)) * activeBytes; v.Free() > 0 && v.Free() < need {
		w = min(w, pressed+(1-pressed)*float64(v.Free())/float64(need))
	}
	return w
}

// known returns what a rank has of the prompt, and what it will have.
func (s *Scratch) known(i int, p *Prompt) (held, foreseen match) {
	rank := s.ranks[i]
	if s.asked != nil {
		return s.askedOf(rank)
	}
	if rank.Worker.Info().NoCache {
		return match{}, match{}
	}
	m, f := s.held(rank), s.foreseen(rank)
	if f.gpu > m.tokens && len(rank.IndexIDs()) <= 1 { // of a hybrid model, which groups kept it is unknown
		m = match{tokens: f.gpu, gpu: f.gpu, block: f.block}
	}
	// A rank without its history knows some of it by its events, and never too
	// much: the answers may know more.
	if n := s.believed[i]; n > m.tokens {
		m = match{tokens: n, gpu: n}
	}
	return m.limited(p), f.limited(p)
}

// scaled is the part of tokens that is believed.
func scaled(tokens int, credit float64) int {
	if credit == 1 {
		return tokens
	}
	return int(float64(tokens) * credit)
}

// silence returns the seconds since a rank told anything, by load or events; 0
// where it never does.
func silence(rank *worker.Rank, load *worker.LoadView, now int64) float64 {
	events := rank.Trust.SilenceAt(now)
	switch {
	case load.Age < 0:
		return max(events, 0)
	case events < 0:
		return load.Age
	}
	return min(load.Age, events)
}

// limited returns the whole blocks of m that the engine takes from its cache: it
// computes at least one token, and those that the request wants to see computed.
func (m match) limited(p *Prompt) match {
	limit := max(p.Len()-1, 0)
	if p.Computed {
		limit = min(limit, p.ComputedFrom)
	}
	if max(m.tokens, m.gpu) <= limit {
		return m // whole blocks already: no division for each rank
	}
	if m.block > 0 {
		limit = limit / m.block * m.block
	}
	m.tokens, m.gpu = min(m.tokens, limit), min(m.gpu, limit)
	return m
}

// decide completes the decision.
func (s *Scratch) decide(d *Decision, p *Prompt, choice policy.Choice) {
	rank, m := s.ranks[choice.Index], s.matches[choice.Index]
	d.Rank, d.Choice = rank, choice
	d.PromptTokens, d.Cached, d.Exact, d.Source = p.Len(), m.tokens, p.Exact, s.sources[choice.Index]
	d.Predicted = s.candidates[choice.Index].Predicted
	block := m.block
	if block == 0 {
		block = pageSize(rank.Worker.Info())
	}
	if (p.Exact || d.Source == Answers) && block > 0 {
		d.Matched, d.Total = m.tokens/block, p.Len()/block
	}
}

func pageSize(info *worker.Info) int {
	if info.Events != nil && info.Events.BlockSize > 0 {
		return info.Events.BlockSize
	}
	return info.PageSize
}
