package route

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
)

// match fills s.byHolder with the prefix that each holder of the model has,
// and returns the prompt's mark.
func (r *Router) match(s *Scratch, p *Prompt, model string, now time.Time) mark {
	var whole mark
	for _, shape := range r.view().Shapes {
		if shape.Model != model {
			continue
		}
		s.hash(r.index, p, shape.BlockSize, shape.Bigram)
		if !shape.Bigram {
			whole = s.sum(r.index, p, shape.BlockSize)
			r.continued(s, p, shape.BlockSize, now)
			r.flying(s, shape.BlockSize)
		}
		domain, ok := r.index.FindDomain(radix.DomainKey{
			Model: model, BlockSize: shape.BlockSize, LoRA: p.LoRA, Salt: p.Salt, Bigram: shape.Bigram,
		})
		if !ok { // nobody has stored a block of this kind
			continue
		}
		s.overlaps = r.index.Match(s.overlaps[:0], domain, s.chain)
		for _, o := range s.overlaps {
			s.record(o, shape.BlockSize)
		}
	}
	return whole
}

// hash cuts the prompt into block hashes. A bigram page of n positions holds
// the n pairs that begin there, so the last token of a prompt begins none.
func (s *Scratch) hash(x *radix.Index, p *Prompt, block int, bigram bool) {
	tokens := p.Tokens
	if !bigram {
		s.chain = s.chain[:0]
		if p.Block == block {
			s.chain = append(s.chain, p.Hashes...)
			tokens = tokens[len(p.Hashes)*block:]
		}
		s.chain = x.AppendHashes(s.chain, tokens, block)
		return
	}
	s.pairs = s.pairs[:0]
	for i := range len(tokens) - 1 {
		s.pairs = append(s.pairs, tokens[i], tokens[i+1])
	}
	s.chain = x.AppendHashes(s.chain[:0], s.pairs, 2*block)
}

// record keeps a holder's longest prefix.
func (s *Scratch) record(o radix.Overlap, block int) {
	if need := int(o.Worker) + 1 - len(s.byHolder); need > 0 {
		s.byHolder = append(s.byHolder, make([]match, need)...)
	}
	if m := (match{tokens: int(o.Blocks) * block, gpu: int(o.GPU) * block, block: block}); m.tokens > s.byHolder[o.Worker].tokens {
		s.byHolder[o.Worker] = m
	}
}

// held returns the prefix that every KV group of the rank has.
func (s *Scratch) held(rank *worker.Rank) match {
	var least match
	for i, id := range rank.Holders() {
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
