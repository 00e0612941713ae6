package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
)

// matcher finds the overlap of ranks with a prompt in the index.
type matcher struct {
	index *radix.Index
	view  func() *ingest.View
}

// indexMatch is the result of a matcher.
type indexMatch struct {
	byID      []overlap // by id of the index, one for each KV group of a rank; zero between choices
	byRank    []overlap // of predictions, by number of the rank; zero between choices
	others    []overlap // as byRank, of other routers' predictions
	found     []radix.Overlap
	pairs     []uint32
	bigrams   []radix.Hash
	shared    []radix.Hash // fingerprints of the prompt
	predicted bool         // some overlap is of predictions
	matched   bool         // the prompt was looked for
}

// match fills m with the overlaps of a model's ranks, s with the hashes that it has needed, and d
// with the block and scope of a prediction.
func (x *matcher) match(m *indexMatch, s *Scratch, model string, p *Prompt, d *Decision) {
	m.predicted = false
	for _, shape := range x.view().Shapes {
		if shape.Model != model {
			continue
		}
		key := radix.DomainKey{Model: model, BlockSize: shape.BlockSize, LoRA: p.LoRA, Salt: p.Salt, Bigram: shape.Bigram}
		domain, stored := x.index.FindDomain(key) // else no rank holds a block of this domain
		switch {
		case !shape.Bigram:
			d.block, d.scope = shape.BlockSize, x.index.Scope(key)
			x.matchTokens(m, s, p, d, domain, stored)
		case stored:
			x.matchBigrams(m, p, shape, domain)
		}
	}
}

// matchTokens matches blocks of tokens. It hashes them only as far as a rank holds them.
func (x *matcher) matchTokens(m *indexMatch, s *Scratch, p *Prompt, d *Decision, domain radix.Domain, stored bool) {
	own := p.Block == d.block && len(p.Hashes) == len(p.Tokens)/d.block
	if own {
		s.blocks = p.Hashes // all of them: nothing is appended
	} else {
		s.blocks = s.chain[:0]
		if p.Block == d.block {
			s.blocks = append(s.blocks, p.Hashes...)
		}
	}
	m.found = m.found[:0]
	if stored {
		m.found, s.blocks = x.index.MatchTokens(m.found, s.blocks, domain, p.Tokens, d.block)
	}
	m.byID = m.record(m.byID, d.block)
	m.found, s.blocks = x.index.MatchPredictedTokens(m.found[:0], s.blocks, d.scope, p.Tokens, d.block)
	m.predicted = m.predicted || len(m.found) > 0
	m.byRank = m.record(m.byRank, d.block)
	if !own {
		s.chain = s.blocks
	}
}

// matchBigrams matches pages of bigrams. A page of n positions has the n pairs that begin
// there; the last token of a prompt begins none. SGLang 0.5.23 matches a prompt without its last
// token, so that the last pair is not looked for either.
func (x *matcher) matchBigrams(m *indexMatch, p *Prompt, shape ingest.Shape, domain radix.Domain) {
	m.pairs = m.pairs[:0]
	for i := range len(p.Tokens) - 2 {
		m.pairs = append(m.pairs, p.Tokens[i], p.Tokens[i+1])
	}
	m.found, m.bigrams = x.index.MatchTokens(m.found[:0], m.bigrams[:0], domain, m.pairs, 2*shape.BlockSize)
	m.byID = m.record(m.byID, shape.BlockSize)
}

// hashAll returns the hashes of all whole blocks of the prompt that was matched last.
func (x *matcher) hashAll(s *Scratch, p *Prompt, block int) []radix.Hash {
	if rest := p.Tokens[len(s.blocks)*block:]; len(rest) >= block {
		s.blocks = x.index.AppendHashes(s.blocks, rest, block)
		s.chain = s.blocks
	}
	return s.blocks
}

// record keeps the longest overlap of each worker of the index.
func (m *indexMatch) record(by []overlap, block int) []overlap {
	for _, o := range m.found {
		by = roomFor(by, o.Worker)
		if l := (overlap{tokens: int(o.Blocks) * block, gpu: int(o.GPU) * block, block: block}); l.tokens > by[o.Worker].tokens {
			by[o.Worker] = l
		}
	}
	return by
}

func roomFor(by []overlap, w radix.Worker) []overlap {
	if need := int(w) + 1 - len(by); need > 0 {
		by = append(by, make([]overlap, need)...)
	}
	return by
}

// clear forgets the overlaps.
func (m *indexMatch) clear() {
	clear(m.byID)
	clear(m.byRank)
	clear(m.others)
}

// of returns the overlap that every KV group of a rank has, and none where its events leave it
// in doubt.
func (m *indexMatch) of(rank *worker.Rank) overlap {
	var least overlap
	if rank.Doubt() != worker.NoDoubt {
		return least
	}
	for i, id := range rank.IndexIDs() {
		if int(id) >= len(m.byID) {
			return overlap{}
		}
		o := m.byID[id]
		if i == 0 || o.tokens < least.tokens {
			least.tokens, least.block = o.tokens, o.block
		}
		if i == 0 || o.gpu < least.gpu {
			least.gpu = o.gpu
		}
	}
	return least
}

// predictedOf returns the overlap that requests in flight at a rank have on the GPU, or will. The
// prompts of other routers count while these have requests there.
func (m *indexMatch) predictedOf(rank *worker.Rank) (o overlap) {
	n := int(rank.Number())
	if m.predicted && n < len(m.byRank) {
		o = m.byRank[n]
	}
	if n < len(m.others) && m.others[n].tokens > o.tokens && rank.Load.PeersInFlight() > 0 {
		o.tokens, o.block = m.others[n].tokens, m.others[n].block
	}
	return o
}

// stale reports whether a rank is credited with blocks that it may have lost: the state of its
// worker has changed while predictions of ended requests stand, which were last compared with
// states at dropped.
func (m *indexMatch) stale(ranks []*worker.Rank, now time.Time, dropped int64) bool {
	if !m.predicted {
		return false
	}
	for _, rank := range ranks {
		if m.predictedOf(rank).gpu == 0 {
			continue
		}
		if since := rank.Worker.Since(); now.Sub(since) < endedMost && since.UnixNano() >= dropped {
			return true
		}
	}
	return false
}
