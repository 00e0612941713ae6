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

// pairFacts are the facts of a choice among pairs.
type pairFacts struct {
	decodes       []policy.Candidate // of Eligible.decodes
	loads         []worker.LoadView  // of Eligible.decodes
	first, second int                // of the best pair, among prefill and decode ranks

	prefillNodes, decodeNodes   []uint32
	links                       *policy.Links
	prefillPlaces, decodePlaces []uint32 // where links is not nil
}

// fillDecodes makes the candidates of f.decodes. It runs before fill, which clears the
// overlaps.
func (f *facts) fillDecodes(p *Prompt) {
	n := len(f.decodes)
	f.pair.decodes, f.pair.loads = slices.Grow(f.pair.decodes[:0], n)[:n], slices.Grow(f.pair.loads[:0], n)[:n]
	f.pair.prefillNodes, f.pair.decodeNodes = f.pair.prefillNodes[:0], f.pair.decodeNodes[:0]
	for _, rank := range f.ranks[f.alone:] {
		f.pair.prefillNodes = append(f.pair.prefillNodes, rank.Worker.HostNumber())
	}
	for j, rank := range f.decodes {
		load, info := &f.pair.loads[j], rank.Worker.Info()
		rank.Load.ViewInto(load, f.now)
		c := policy.Candidate{
			ID: rank.IDHash(), InFlight: load.InFlight, Waiting: load.Waiting, Pool: load.Pool, Used: load.Used, MaxRunning: load.Most,
			Age: silence(rank, load, f.now),
		}
		if v := rank.Worker.Verdict(f.now); v != nil {
			c.Weight = v.Weight
		}
		if c.Pool == 0 {
			c.Pool = int64(info.MaxTokens)
		}
		// A decode worker without a prefix cache is sent the whole prompt.
		if info.DecodeCache && p.source(rank) == Events {
			c.Cached = trusted(f.index.of(rank).usable(p).tokens, rank.Trust.CreditAt(f.now, true))
		}
		f.pair.decodes[j] = c
		f.pair.decodeNodes = append(f.pair.decodeNodes, rank.Worker.HostNumber())
	}
}

// pairCandidates returns the ranks that a pair is chosen from.
func (f *facts) pairCandidates() policy.PairCandidates {
	l := policy.PairCandidates{
		Prefill: f.candidates[f.alone:], Decode: f.pair.decodes, Link: policy.UsualLink,
		PrefillHosts: f.pair.prefillNodes, DecodeHosts: f.pair.decodeNodes,
	}
	if f.pair.links != nil && len(f.decodes) > 0 {
		f.pair.prefillPlaces = places(f.pair.prefillPlaces[:0], f.ranks[f.alone:])
		f.pair.decodePlaces = places(f.pair.decodePlaces[:0], f.decodes)
		l.Links, l.PrefillNodes, l.DecodeNodes = f.pair.links, f.pair.prefillPlaces, f.pair.decodePlaces
		l.Bytes = tokenBytes(f.decodes[0].Worker.Info())
	}
	return l
}

func places(dst []uint32, ranks []*worker.Rank) []uint32 {
	for _, rank := range ranks {
		dst = append(dst, rank.Worker.NodeNumber())
	}
	return dst
}
