package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Peers are the other routers. One of them, the leader, chooses for all: requests that reach
// several routers at once are then chosen one after the other, for which messages after each
// choice would be too late.
type Peers interface {
	// Active reports whether another router leads and can be asked. It costs one atomic load.
	Active() bool
	// Choose sends a request to the leader and waits a few milliseconds at most for the reply.
	// false: this router must choose.
	Choose(a *PeerRequest) (PeerReply, bool)
	// Sent tells that the request of the reply with that number counts as load.
	Sent(number uint64)
	// Present reports whether there are other routers. It costs one atomic load.
	Present() bool
	// Tell tells the leader of a prompt that was sent without its choice, and returns a number
	// for Done.
	Tell(rank uint64, tokens int, fingerprints []uint32) uint64
	// Done tells that the prompt with that number is computed or given up.
	Done(number uint64)
}

// PeerRequest is a request that another router chooses for: the overlaps that this router
// knows. The leader knows load and health of the ranks better.
type PeerRequest struct {
	Model, LoRA  string
	Tokens       int // prompt tokens
	Output       int // as Prompt.Output
	DP           int // as Prompt.DP
	Exact        bool
	Unpaired     bool
	Stored       bool        // some overlaps have tokens to fetch
	Home         uint64      // as policy.Request.Home
	Common       PeerOverlap // of each rank that is not in Overlaps
	Overlaps     []RankOverlap
	Fingerprints []uint32 // of a prompt with token ids, for SharedPredictions
}

// PeerOverlap is the part of a prompt that a rank holds or could fetch, in tokens: the fields
// of policy.Candidate with these names.
type PeerOverlap struct {
	Cached, Host, Predicted int
	Tier, Remote            int32
	TierTime, RemoteTime    float32 // seconds
}

// RankOverlap is the overlap of the rank with this Hash.
type RankOverlap struct {
	Rank uint64
	PeerOverlap
}

// PeerReply is the choice of another router.
type PeerReply struct {
	Number uint64  // for Sent; never 0
	Rank   uint64  // Hash of the rank; 0: there is none
	Decode uint64  // Hash of the decode rank of a pair; 0: the request goes to Rank alone
	Cost   float64 // of Rank
}

const whyPeer = "chosen by the router that chooses for all"

// peerScratch is the memory of a choice by or for another router.
type peerScratch struct {
	request   PeerRequest
	answering *PeerRequest // nil: the request is this router's own
	byRank    map[uint64]int
}

// fill makes a the question about the candidates of s. The overlap of most of them, a system
// prompt perhaps, is told once.
func (a *PeerRequest) fill(s *Scratch, p *Prompt, req policy.Request) {
	*a = PeerRequest{
		Model: p.Model, LoRA: p.LoRA, Tokens: req.Tokens, Output: p.Output, DP: p.DP, Exact: req.Exact, Unpaired: p.Unpaired,
		Stored: req.Stored, Home: req.Home, Overlaps: a.Overlaps[:0],
	}
	votes := 0
	for i := range s.candidates {
		switch o := overlapOf(&s.candidates[i], req.Stored); {
		case votes == 0:
			a.Common, votes = o, 1
		case o == a.Common:
			votes++
		default:
			votes--
		}
	}
	for i := range s.candidates {
		if o := overlapOf(&s.candidates[i], req.Stored); o != a.Common {
			a.Overlaps = append(a.Overlaps, RankOverlap{s.ranks[i].IDHash(), o})
		}
	}
}

func overlapOf(c *policy.Candidate, stored bool) PeerOverlap {
	o := PeerOverlap{Cached: c.Cached, Host: c.Host, Predicted: c.Predicted}
	if stored {
		o.Tier, o.Remote, o.TierTime, o.RemoteTime = c.Tier, c.Remote, c.TierTime, c.RemoteTime
	}
	return o
}

// accept makes a reply the decision; false: it names no candidate.
func (a *PeerReply) accept(s *Scratch, d *Decision, p *Prompt) bool {
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
	s.decide(d, p, policy.Choice{Index: i, Cost: a.Cost, Why: whyPeer})
	d.Decode, d.DecodeChoice = nil, policy.Choice{}
	if j >= 0 {
		s.pair.first, s.pair.second = i-s.alone, j
		d.Decode, d.DecodeChoice, d.output = s.decodes[j], policy.Choice{Index: j, Why: whyPeer}, p.Output
	}
	return true
}

// begin makes a the request to answer.
func (s *peerScratch) begin(a *PeerRequest) {
	if s.byRank == nil {
		s.byRank = make(map[uint64]int)
	}
	clear(s.byRank)
	s.answering = a
	for i := range a.Overlaps {
		s.byRank[a.Overlaps[i].Rank] = i
	}
}

// overlap returns the overlap of a rank as the asking router knows it.
func (s *peerScratch) overlap(rank *worker.Rank) *PeerOverlap {
	if i, ok := s.byRank[rank.IDHash()]; ok {
		return &s.answering.Overlaps[i].PeerOverlap
	}
	return &s.answering.Common
}
