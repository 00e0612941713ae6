package routing

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// DefaultMinUncached is Router.MinUncached where nothing else is set: an aggregated rank computes 256 tokens, at 10,000 a
// second, in 26 ms, less than the decode step of 30 ms that it delays. A pair has a handshake and a transfer before it.
const DefaultMinUncached = 256

// group is the ranks of one role that could take a request.
type group struct {
	tier  tier
	ranks []*worker.Rank // all of tier
}

func (g *group) add(rank *worker.Rank, t tier) {
	if t < g.tier {
		g.tier, g.ranks = t, g.ranks[:0]
	}
	if t == g.tier && t != tierNone {
		g.ranks = append(g.ranks, rank)
	}
}

// legs is the part of a Scratch that belongs to pairs.
type legs struct {
	groups  [3]group       // by role
	alone   int            // of s.ranks, how many lead it that need nobody else; the others are prefill ranks
	decodes []*worker.Rank // that those could send to

	first, second int // the best pair: index of its prefill rank among those, and of its decode rank in decodes

	decodeCandidates          []policy.Candidate // of decodes
	decodeLoads               []worker.LoadView
	prefillNodes, decodeNodes []uint32

	links                       *policy.Links
	prefillPlaces, decodePlaces []uint32 // where links is not nil
}

// collect sorts the ranks into groups, and reports whether any worker serves
// the model. It is one pass without a map: with 1,024 ranks each look more
// would be as dear as the choice itself.
func (s *Scratch) collect(snap *worker.Snapshot, p *Prompt, tried []*worker.Rank) (served bool) {
	for i := range s.groups {
		s.groups[i] = group{tier: tierNone, ranks: s.groups[i].ranks[:0]}
	}
	s.passed, s.judged = passed{}, false
	var last *worker.Worker // whose ranks lie together
	var fit tier
	var role worker.Role
	model := p.Model
	for _, rank := range snap.Ranks {
		if rank.Worker != last {
			last, fit = rank.Worker, tierNone
			if info := last.Info(); info != nil && Serves(info, model) {
				if !served {
					model = info.Named(model)
				}
				served = true
				role, fit = info.Role(), tierReady
				if !last.Fit() {
					fit = s.tierOf(last, info)
				}
			}
		}
		if fit == tierNone || (p.Unpaired && role != worker.RoleAggregated) || (p.DP >= 0 && p.DP != rank.DPRank) || (len(tried) > 0 && slices.Contains(tried, rank)) {
			continue
		}
		if fit&tierFacts != 0 {
			s.passed.note(fit)
		}
		s.groups[role].add(rank, fit)
	}
	return served
}

// unite makes s.ranks of the groups: ranks that could have the request alone, then those that could with one of s.decodes.
// Whichever needs worse ranks than the other is left out.
func (s *Scratch) unite() {
	alone, prefill, decode := &s.groups[worker.RoleAggregated], &s.groups[worker.RolePrefill], &s.groups[worker.RoleDecode]
	pair := max(prefill.tier, decode.tier)
	s.ranks, s.decodes, s.alone = s.ranks[:0], s.decodes[:0], 0
	if alone.tier <= pair {
		s.ranks = append(s.ranks, alone.ranks...)
		s.alone = len(s.ranks)
	}
	if pair <= alone.tier && pair != tierNone {
		s.ranks = append(s.ranks, prefill.ranks...)
		s.decodes = append(s.decodes, decode.ranks...)
	}
}

// missing says which role nobody is there for, where the other one is.
func (s *Scratch) missing() error {
	prefill, decode := s.groups[worker.RolePrefill].tier != tierNone, s.groups[worker.RoleDecode].tier != tierNone
	switch {
	case prefill && !decode:
		return ErrNoDecode
	case decode && !prefill:
		return ErrNoPrefill
	}
	return nil
}

// weighDecodes makes the candidates of s.decodes. It goes before weigh, which
// clears what matches are read from.
func (s *Scratch) weighDecodes(p *Prompt, now time.Time) {
	n, nanos := len(s.decodes), now.UnixNano()
	s.decodeCandidates, s.decodeLoads = slices.Grow(s.decodeCandidates[:0], n)[:n], slices.Grow(s.decodeLoads[:0], n)[:n]
	s.prefillNodes, s.decodeNodes = s.prefillNodes[:0], s.decodeNodes[:0]
	for _, rank := range s.ranks[s.alone:] {
		s.prefillNodes = append(s.prefillNodes, rank.Worker.HostNumber())
	}
	for j, rank := range s.decodes {
		load, info := &s.decodeLoads[j], rank.Worker.Info()
		rank.Load.ViewInto(load, nanos)
		c := policy.Candidate{
			ID: rank.IDHash(), InFlight: load.InFlight, Waiting: load.Waiting, Pool: load.Pool, Used: load.Used, Most: load.Most,
			Age: silence(rank, load, nanos),
		}
		if s.judged {
			c.Weight = rank.Worker.Verdict(nanos).Weight()
		}
		if c.Pool == 0 {
			c.Pool = int64(info.MaxTokens)
		}
		// Without a cache of its own a decode worker is sent the whole prompt, whatever it has of it.
		if info.DecodeCache && p.source(rank) == Events {
			c.Cached = scaled(s.held(rank).limited(p).tokens, rank.Trust.CreditAt(nanos, true))
		}
		s.decodeCandidates[j] = c
		s.decodeNodes = append(s.decodeNodes, rank.Worker.HostNumber())
	}
}

// settle lets the policy pick a rank or a pair. Where both are there the two are chosen apart and compared then: a policy that
// takes turns or draws has nothing that a pair and a rank could be compared by.
func (r *Router) settle(s *Scratch, p *Prompt, d *Decision, req policy.Request) {
	if len(s.decodes) == 0 {
		s.decide(d, p, r.Policy().Pick(req, s.candidates))
		return
	}
	s.links = r.links.Load()
	l := s.pairing()
	prefill, decode := policy.PickPair(r.Policy(), req, &l)
	s.first, s.second = prefill.Index, decode.Index
	if s.alone > 0 {
		single := r.Policy().Pick(req, s.candidates[:s.alone])
		if why := policy.Alone(r.Policy(), req, s.candidates[:s.alone], single.Index, &l, prefill.Index, decode.Index, r.minUncached()); why != "" {
			single.Why = why
			s.decide(d, p, single)
			return
		}
	}
	prefill.Index += s.alone
	s.decide(d, p, prefill)
	d.Decode, d.DecodeChoice = s.decodes[decode.Index], decode
	d.output = p.Output
}

// pairing is what a pair is chosen from.
func (s *Scratch) pairing() policy.Legs {
	l := policy.Legs{
		Prefill: s.candidates[s.alone:], Decode: s.decodeCandidates, Link: policy.UsualLink,
		PrefillNodes: s.prefillNodes, DecodeNodes: s.decodeNodes,
	}
	if s.links != nil && len(s.decodes) > 0 {
		s.prefillPlaces, s.decodePlaces = places(s.prefillPlaces[:0], s.ranks[s.alone:]), places(s.decodePlaces[:0], s.decodes)
		l.Links, l.PrefillPlaces, l.DecodePlaces = s.links, s.prefillPlaces, s.decodePlaces
		l.Bytes = tokenBytes(s.decodes[0].Worker.Info())
	}
	return l
}

func places(dst []uint32, ranks []*worker.Rank) []uint32 {
	for _, rank := range ranks {
		dst = append(dst, rank.Worker.NodeNumber())
	}
	return dst
}

func (r *Router) minUncached() int {
	if r.MinUncached == 0 {
		return DefaultMinUncached
	}
	return r.MinUncached
}

// usualOutput bounds what an answer is expected to take of a decode rank's pool: clients ask for what they will accept, not for
// what they need, and answers have 350 tokens in the mean of the conversation trace. SGLang reserves 512 for a request
// (num_reserved_decode_tokens).
const usualOutput = 512

// DecodeTokens returns what the request will take of the decode rank's pool, for
// Load.BeginDecode.
func (d *Decision) DecodeTokens() int {
	if d.output > 0 {
		return d.PromptTokens + min(d.output, usualOutput)
	}
	return d.PromptTokens + usualOutput
}

// Left reports whether anybody fit but tried could take the prompt: one that answers its probes and whose breaker lets a
// request through. Unlike Pick it takes no trial place.
func (r *Router) Left(s *Scratch, p *Prompt, tried []*worker.Rank) bool {
	if r.gather(s, p, tried, time.Now()) != nil {
		return false
	}
	t := s.groups[worker.RoleAggregated].tier
	if s.alone == 0 {
		t = s.groups[worker.RolePrefill].tier | s.groups[worker.RoleDecode].tier
	}
	return t&(tierSlow|tierOpen) == 0
}

// admitted is called after the choice, not while ranks are gathered: a choice among ten ranks would else take the places of all
// of them and use one.
//
// It takes the trial places of the decision's workers whose breakers are half open, and reports whether it got them. A
// breaker that is open was passed over for want of anybody else.
func (s *Scratch) admitted(d *Decision) bool {
	first, second := &d.Rank.Worker.Breaker, (*worker.Breaker)(nil)
	if d.Decode != nil {
		second = &d.Decode.Worker.Breaker
	}
	if first.Closed() && (second == nil || second.Closed()) {
		return true
	}
	now := time.Now().UnixNano()
	a, b := s.groups[d.Rank.Worker.Role()].tier >= tierOpen, true
	if second != nil {
		b = s.groups[worker.RoleDecode].tier >= tierOpen || second.Lets(now)
	}
	if !b || (!a && !first.Try(now)) {
		return false
	}
	return second == nil || s.groups[worker.RoleDecode].tier >= tierOpen || second.Try(now)
}

// noLeg makes the error for a model of which one role is missing. It is ErrNoWorker to whoever only wants to know that it cannot
// be served, while people are told what to start.
func noLeg(model string, missing error) error {
	return fmt.Errorf("cannot route model %q: %w: %w", model, ErrNoWorker, missing)
}
