package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// DefaultMinUncached is the default of Router.MinUncached: a regular rank computes 256
// tokens, at 10,000 per second, in 26 ms, less than the decode step of 30 ms that it delays. A
// pair has a handshake and a transfer before it.
const DefaultMinUncached = 256

// pairScratch is the memory of a choice among pairs.
type pairScratch struct {
	decodes       []policy.Candidate // of eligible.decodes
	loads         []worker.LoadView  // of eligible.decodes
	first, second int                // of the best pair, among prefill and decode ranks

	prefillNodes, decodeNodes   []uint32
	links                       *policy.Links
	prefillPlaces, decodePlaces []uint32 // where links is not nil
}

// fillDecodes makes the candidates of s.decodes. It runs before fill, which clears the
// overlaps.
func (s *Scratch) fillDecodes(p *Prompt) {
	n := len(s.decodes)
	s.pair.decodes, s.pair.loads = slices.Grow(s.pair.decodes[:0], n)[:n], slices.Grow(s.pair.loads[:0], n)[:n]
	s.pair.prefillNodes, s.pair.decodeNodes = s.pair.prefillNodes[:0], s.pair.decodeNodes[:0]
	for _, rank := range s.ranks[s.alone:] {
		s.pair.prefillNodes = append(s.pair.prefillNodes, rank.Worker.HostNumber())
	}
	for j, rank := range s.decodes {
		load, info := &s.pair.loads[j], rank.Worker.Info()
		rank.Load.ViewInto(load, s.now)
		c := policy.Candidate{
			ID: rank.IDHash(), InFlight: load.InFlight, Waiting: load.Waiting, Pool: load.Pool, Used: load.Used, MaxRunning: load.Most,
			Age: silence(rank, load, s.now),
		}
		if s.judged {
			c.Weight = rank.Worker.Verdict(s.now).Weight()
		}
		if c.Pool == 0 {
			c.Pool = int64(info.MaxTokens)
		}
		// A decode worker without a prefix cache is sent the whole prompt.
		if info.DecodeCache && p.source(rank) == Events {
			c.Cached = trusted(s.index.of(rank).usable(p).tokens, rank.Trust.CreditAt(s.now, true))
		}
		s.pair.decodes[j] = c
		s.pair.decodeNodes = append(s.pair.decodeNodes, rank.Worker.HostNumber())
	}
}

// pairCandidates returns the ranks that a pair is chosen from.
func (s *Scratch) pairCandidates() policy.PairCandidates {
	l := policy.PairCandidates{
		Prefill: s.candidates[s.alone:], Decode: s.pair.decodes, Link: policy.UsualLink,
		PrefillHosts: s.pair.prefillNodes, DecodeHosts: s.pair.decodeNodes,
	}
	if s.pair.links != nil && len(s.decodes) > 0 {
		s.pair.prefillPlaces = places(s.pair.prefillPlaces[:0], s.ranks[s.alone:])
		s.pair.decodePlaces = places(s.pair.decodePlaces[:0], s.decodes)
		l.Links, l.PrefillNodes, l.DecodeNodes = s.pair.links, s.pair.prefillPlaces, s.pair.decodePlaces
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
