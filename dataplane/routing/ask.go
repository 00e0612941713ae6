package routing

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Others are the routers beside this one, of which one chooses for all: requests that arrive at several of them at one instant are then still
// chosen one after the other, which no message between equals would be fast enough for.
type Others interface {
	// Active reports whether another router chooses for this one. It costs one atomic load.
	Active() bool
	// Choose asks that router and waits for its answer, for a few milliseconds at most; false: this router must choose.
	Choose(a *Ask) (Answer, bool)
	// Sent tells that the request of an answer with that number is counted as load.
	Sent(number uint64)
	// Together reports whether other routers are there at all. It costs one atomic load.
	Together() bool
	// Tell tells the router that chooses of a prompt that was sent without its choice, and returns a number for Done.
	Tell(rank uint64, tokens int, marks []uint32) uint64
	// Done tells that the prompt with that number is computed, or that nothing comes of it.
	Done(number uint64)
}

// Ask is all that a choice by another router needs to know of a request: what the ranks hold of its prompt by the events and flights of who
// asks. Load and health of the ranks are better known to who answers.
type Ask struct {
	Model, LoRA string
	Tokens      int // prompt tokens
	Output      int // as Prompt.Output
	DP          int // as Prompt.DP
	Exact       bool
	Unpaired    bool
	Stored      bool   // some Held have something to fetch
	Prefix      uint64 // as policy.Request.Prefix
	Home        uint64 // as policy.Request.Home
	Base        Held   // what each rank has that is not in Held
	Held        []RankHeld
	Marks       []uint32 // of the prompt, where its ids are known: who answers knows by them which ranks are about to compute it for others
}

// Held is what a rank has of a prompt, in tokens, and could fetch of it: Candidate's fields of these names.
type Held struct {
	Cached, Host, Predicted int
	Tier, Remote            int32
	TierTime, RemoteTime    float32 // seconds
}

// RankHeld is Held of the rank with this Hash.
type RankHeld struct {
	Rank uint64
	Held
}

// Answer is another router's choice.
type Answer struct {
	Number uint64  // for Sent; never 0
	Rank   uint64  // Hash of the rank; 0: there is none
	Decode uint64  // Hash of the decode rank of a pair; 0: the request goes to Rank alone
	Cost   float64 // of Rank
}

const whyOther = "chosen by the router that chooses for all"

// asker is the part of a Scratch that belongs to choices by or for another router.
type asker struct {
	ask   Ask
	asked *Ask    // that is being answered; nil: the request is our own
	table []int32 // by hash of the rank, 1 + index into asked.Held
}

// askOther lets another router choose for a request that choose has prepared. Where that fails this one chooses again: meanwhile others
// of the same instant were sent.
func (r *Router) askOther(s *Scratch, p *Prompt, by draw, d Decision, req policy.Request) (Decision, error) {
	s.fillAsk(p, req)
	if d.block > 0 {
		s.ask.Marks = r.marks(s, p)
	}
	answer, ok := r.Others.Choose(&s.ask)
	s.ask.Model, s.ask.LoRA = "", "" // they may be the request's own bytes
	if ok && s.take(&d, p, answer) {
		d.ask = answer.Number
		d.Overruled = s.overruled(&d)
		return d, nil
	}
	if ok { // it goes nowhere
		r.Others.Sent(answer.Number)
		r.Others.Done(answer.Number)
	}
	d, _, err := r.chooseAny(s, p, nil, by)
	return d, err
}

// fillAsk makes s.ask of the candidates. What most of them have, a system prompt perhaps, is said once.
func (s *Scratch) fillAsk(p *Prompt, req policy.Request) {
	a := &s.ask
	*a = Ask{
		Model: p.Model, LoRA: p.LoRA, Tokens: req.Tokens, Output: p.Output, DP: p.DP, Exact: req.Exact, Unpaired: p.Unpaired,
		Stored: req.Stored, Prefix: req.Prefix, Home: req.Home, Held: a.Held[:0],
	}
	votes := 0
	for i := range s.candidates {
		switch held := heldBy(&s.candidates[i], req.Stored); {
		case votes == 0:
			a.Base, votes = held, 1
		case held == a.Base:
			votes++
		default:
			votes--
		}
	}
	for i := range s.candidates {
		if held := heldBy(&s.candidates[i], req.Stored); held != a.Base {
			a.Held = append(a.Held, RankHeld{s.ranks[i].IDHash(), held})
		}
	}
}

func heldBy(c *policy.Candidate, stored bool) Held {
	h := Held{Cached: c.Cached, Host: c.Host, Predicted: c.Predicted}
	if stored {
		h.Tier, h.Remote, h.TierTime, h.RemoteTime = c.Tier, c.Remote, c.TierTime, c.RemoteTime
	}
	return h
}

// take makes an answer the decision; false: what it names is no candidate.
func (s *Scratch) take(d *Decision, p *Prompt, a Answer) bool {
	is := func(hash uint64) func(*worker.Rank) bool {
		return func(r *worker.Rank) bool { return r.IDHash() == hash }
	}
	i, j := slices.IndexFunc(s.ranks, is(a.Rank)), -1
	if i < 0 || (a.Decode == 0) != (i < s.alone) {
		return false
	}
	if a.Decode != 0 {
		if j = slices.IndexFunc(s.decodes, is(a.Decode)); j < 0 {
			return false
		}
	}
	s.decide(d, p, policy.Choice{Index: i, Cost: a.Cost, Why: whyOther})
	d.Decode, d.DecodeChoice = nil, policy.Choice{}
	if j >= 0 {
		s.first, s.second = i-s.alone, j
		d.Decode, d.DecodeChoice, d.output = s.decodes[j], policy.Choice{Index: j, Why: whyOther}, p.Output
	}
	return true
}

// Arbitrate chooses for another router. Of the decision Rank, Decode, Choice, Uncached and DecodeTokens mean something.
func (r *Router) Arbitrate(s *Scratch, a *Ask) (Decision, error) {
	p := Prompt{Model: a.Model, LoRA: a.LoRA, DP: a.DP, Estimate: a.Tokens, Output: a.Output, Unpaired: a.Unpaired}
	now := time.Now()
	s.expects = r.Expected.find(s.expects[:0], now.UnixNano(), a.Tokens, a.Marks, true)
	if !a.Stored { // else who holds nothing and could fetch counts, too
		if d, ok := r.arbitrateFew(s, a, &p, now); ok {
			return d, nil
		}
	}
	if err := r.gather(s, &p, nil, now); err != nil {
		return Decision{}, err
	}
	r.weighAsked(s, a, &p, now)
	if len(s.ranks) > manyRanks && p.DP < 0 && p.LoRA == "" && !p.Unpaired {
		r.keepFew(s, &p, r.seed(), now)
	}
	var d Decision
	r.settle(s, &p, &d, policy.Request{
		Tokens: a.Tokens, Exact: a.Exact, Turn: r.turn.Add(1) - 1, Seed: r.seed(), Prefix: a.Prefix, Home: a.Home, Stored: a.Stored,
	})
	return d, nil
}

// weighAsked makes the candidates of s.ranks and s.decodes for a request of another router.
func (r *Router) weighAsked(s *Scratch, a *Ask, p *Prompt, now time.Time) {
	n := len(s.ranks)
	s.sources, s.believed = slices.Grow(s.sources[:0], n)[:n], slices.Grow(s.believed[:0], n)[:n]
	clear(s.sources)
	clear(s.believed)
	s.foretold = false
	s.answerTo(a)
	if len(s.decodes) > 0 {
		s.weighDecodes(p, now)
	}
	r.weigh(s, p, now)
	if a.Stored {
		for i, rank := range s.ranks {
			h, c := s.heldOf(rank), &s.candidates[i]
			c.Tier, c.Remote, c.TierTime, c.RemoteTime = h.Tier, h.Remote, h.TierTime, h.RemoteTime
		}
	}
	s.asked = nil
}

// answerTo makes a what known returns.
func (s *Scratch) answerTo(a *Ask) {
	size := 8
	for size < 2*len(a.Held) {
		size *= 2
	}
	s.asked, s.table = a, slices.Grow(s.table[:0], size)[:size]
	clear(s.table)
	for i := range a.Held {
		at := a.Held[i].Rank
		for s.table[at%uint64(size)] != 0 {
			at++
		}
		s.table[at%uint64(size)] = int32(i + 1)
	}
}

// askedOf is known for a request of another router.
func (s *Scratch) askedOf(rank *worker.Rank) (held, foreseen match) {
	h := s.heldOf(rank)
	return match{tokens: h.Cached, gpu: h.Cached - h.Host}, match{tokens: h.Predicted, gpu: h.Predicted}
}

// heldOf finds what who asks has said of a rank.
func (s *Scratch) heldOf(rank *worker.Rank) *Held {
	size := uint64(len(s.table))
	for at := rank.IDHash(); s.table[at%size] != 0; at++ {
		if e := &s.asked.Held[s.table[at%size]-1]; e.Rank == rank.IDHash() {
			return &e.Held
		}
	}
	return &s.asked.Base
}

// credit is the share of a match that is believed. Who asks for a choice has said only what he believes.
func (s *Scratch) credit(i int, nanos int64) float64 {
	if s.asked != nil {
		return 1
	}
	return s.ranks[i].Trust.CreditAt(nanos, s.sources[i] == Events)
}
