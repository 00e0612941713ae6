package routing

import (
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// Scratch is the memory of one choice, reused by the next one.
type Scratch struct {
	eligible
	index  indexMatch
	approx approxMatch
	tiers  tierMatches
	shared sharedMatch
	pair   pairScratch
	turn   turnMatch

	candidates []policy.Candidate
	overlaps   []overlap         // by candidate
	told       []int             // by candidate: tokens by its events alone, counted or not
	credits    []float64         // by candidate: share of an overlap that is trusted
	loads      []worker.LoadView // by candidate
	answer     []radix.Hash
}

// keptHashes bounds the memory that a Scratch keeps of a prompt's hashes: 1 MiB, a million
// tokens in blocks of 8.
const keptHashes = 128 << 10

// Trim frees the memory of an unusually long prompt before s goes back to a pool. Decisions
// made with s are invalid afterwards.
func (s *Scratch) Trim() {
	s.index.blocks = nil // another name of chain, or the caller's
	if cap(s.index.chain) > keptHashes {
		s.index.chain = nil
	}
	if cap(s.index.pairs) > 2*keptHashes {
		s.index.pairs, s.index.bigrams = nil, nil
	}
}

// overlap is a leading part of a prompt that a rank holds, in tokens.
type overlap struct {
	tokens int // in any tier of the engine
	gpu    int // on the GPU
	block  int // tokens in a block of the index
}

// usable returns the whole blocks of o that the engine takes from its cache: it computes at
// least one token, and the tokens that the request needs computed.
func (o overlap) usable(p *Prompt) overlap {
	limit := max(p.Len()-1, 0)
	if p.Computed {
		limit = min(limit, p.ComputedFrom)
	}
	if max(o.tokens, o.gpu) <= limit {
		return o
	}
	if o.block > 0 {
		limit = limit / o.block * o.block
	}
	o.tokens, o.gpu = min(o.tokens, limit), min(o.gpu, limit)
	return o
}

// trusted returns the share of tokens that credit allows.
func trusted(tokens int, credit float64) int {
	if credit == 1 {
		return tokens
	}
	return int(float64(tokens) * credit)
}

// overlap returns the overlap of a rank, and the one that requests in flight there will have; told
// are the tokens that its events alone tell of.
func (s *Scratch) overlap(i int, p *Prompt) (held, predicted overlap, told int) {
	rank := s.ranks[i]
	if rank.Worker.Info().NoCache {
		return overlap{}, overlap{}, 0
	}
	o, f := s.index.of(rank), s.index.predictedOf(rank)
	told = o.usable(p).tokens
	if !rank.Events.Credited() {
		o = overlap{}
	}
	if f.gpu > o.tokens && len(rank.IndexIDs()) <= 1 { // groups of a hybrid model are unknown
		o = overlap{tokens: f.gpu, gpu: f.gpu, block: f.block}
	}
	// The events of a rank without history tell of a part of its blocks; the answers may know
	// more.
	if n := s.approx.tokens[i]; n > o.tokens {
		o = overlap{tokens: n, gpu: n}
		s.approx.sources[i] = Answers
	}
	return o.usable(p), f.usable(p), told
}

// credit returns the share of a rank's overlap that is trusted.
func (s *Scratch) credit(i int) float64 {
	return s.ranks[i].Trust.CreditAt(s.now, s.approx.sources[i] == Events)
}

// silence returns the seconds since the last load report or event of a rank; 0 where it sends
// none.
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

// decide makes a choice the decision.
func (s *Scratch) decide(d *Decision, p *Prompt, choice policy.Choice) {
	rank, o := s.ranks[choice.Index], s.overlaps[choice.Index]
	d.Rank, d.Choice = rank, choice
	d.PromptTokens, d.Cached, d.Exact, d.Source = p.Len()+p.Rest, o.tokens, p.Exact, s.approx.sources[choice.Index]
	d.Predicted = s.candidates[choice.Index].Predicted
	d.told, d.matched, d.ahead = s.told[choice.Index], s.index.matched, s.candidates[choice.Index].Pending
	d.removed = rank.Events.Removed()
	block := o.block
	if block == 0 {
		block = pageSize(rank.Worker.Info())
	}
	if (p.Exact || d.Source == Answers) && block > 0 {
		d.Matched, d.Total = o.tokens/block, p.Len()/block
	}
}
