package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
)

// match fills s.byHolder with the prefix that each holder of the model has and
// that is predicted of each rank, and tells d what may be predicted of this
// prompt.
func (r *Router) match(s *Scratch, p *Prompt, d *Decision) {
	s.foretold = false
	model := s.ranks[0].Worker.Info().Model()
	for _, shape := range r.view().Shapes {
		if shape.Model != model {
			continue
		}
		key := radix.DomainKey{Model: model, BlockSize: shape.BlockSize, LoRA: p.LoRA, Salt: p.Salt, Bigram: shape.Bigram}
		domain, stored := r.index.FindDomain(key) // else nobody has stored a block of this kind
		switch {
		case !shape.Bigram:
			d.block, d.scope = shape.BlockSize, r.index.Scope(key)
			r.matchPlain(s, p, d, domain, stored)
		case stored:
			r.matchPairs(s, p, shape, domain)
		}
	}
}

// matchPlain matches blocks of tokens. They are hashed only as far as somebody
// has them.
func (r *Router) matchPlain(s *Scratch, p *Prompt, d *Decision, domain radix.Domain, stored bool) {
	own := p.Block == d.block && len(p.Hashes) == len(p.Tokens)/d.block
	if own {
		s.blocks = p.Hashes // all of them: nothing is appended
	} else {
		s.blocks = s.chain[:0]
		if p.Block == d.block {
			s.blocks = append(s.blocks, p.Hashes...)
		}
	}
	s.overlaps = s.overlaps[:0]
	if stored {
		s.overlaps, s.blocks = r.index.MatchTokens(s.overlaps, s.blocks, domain, p.Tokens, d.block)
	}
	held := len(s.overlaps)
	s.overlaps, s.blocks = r.index.ForeseeTokens(s.overlaps, s.blocks, d.scope, p.Tokens, d.block)
	s.foretold = s.foretold || len(s.overlaps) > held
	s.record(d.block)
	if !own {
		s.chain = s.blocks
	}
}

// matchPairs matches bigram pages. One of n positions holds the n pairs that
// begin there, so the last token of a prompt begins none.
func (r *Router) matchPairs(s *Scratch, p *Prompt, shape ingest.Shape, domain radix.Domain) {
	s.pairs = s.pairs[:0]
	for i := range len(p.Tokens) - 1 {
		s.pairs = append(s.pairs, p.Tokens[i], p.Tokens[i+1])
	}
	s.overlaps, s.bigrams = r.index.MatchTokens(s.overlaps[:0], s.bigrams[:0], domain, s.pairs, 2*shape.BlockSize)
	s.record(shape.BlockSize)
}

// hashAll returns the hashes of all whole blocks of the prompt that was matched
// last.
func (s *Scratch) hashAll(x *radix.Index, p *Prompt, block int) []radix.Hash {
	if rest := p.Tokens[len(s.blocks)*block:]; len(rest) >= block {
		s.blocks = x.AppendHashes(s.blocks, rest, block)
		s.chain = s.blocks
	}
	return s.blocks
}

// record keeps each holder's longest prefix.
func (s *Scratch) record(block int) {
	for _, o := range s.overlaps {
		if need := int(o.Worker) + 1 - len(s.byHolder); need > 0 {
			s.byHolder = append(s.byHolder, make([]match, need)...)
		}
		if m := (match{tokens: int(o.Blocks) * block, gpu: int(o.GPU) * block, block: block}); m.tokens > s.byHolder[o.Worker].tokens {
			s.byHolder[o.Worker] = m
		}
	}
}

// held returns the prefix that every KV group of the rank has, and nothing where
// its events leave that in doubt.
func (s *Scratch) held(rank *worker.Rank) match {
	var least match
	if rank.Doubt() != worker.NoDoubt {
		return least
	}
	for i, id := range rank.IndexIDs() {
		if int(id) >= len(s.byHolder) {
			return match{}
		}
		m := s.byHolder[id]
		if i == 0 || m.tokens < least.tokens {
			least.tokens, least.block = m.tokens, m.block
		}
		if i == 0 || m.gpu < least.gpu {
			least.gpu = m.gpu
		}
	}
	return least
}

// foreseen returns the prefix that the rank's flights have cached, on the GPU,
// or will.
func (s *Scratch) foreseen(rank *worker.Rank) match {
	if id := int(rank.PredictionID()) - 1; s.foretold && id >= 0 && id < len(s.byHolder) {
		return s.byHolder[id]
	}
	return match{}
}

// doubtful reports whether a candidate is credited with what it may have lost:
// its worker's state has changed while answers are remembered.
func (s *Scratch) doubtful(now time.Time) bool {
	if !s.foretold {
		return false
	}
	for _, rank := range s.ranks {
		if s.foreseen(rank).gpu > 0 && now.Sub(rank.Worker.Since()) < recentFor {
			return true
		}
	}
	return false
}
