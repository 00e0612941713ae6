package radix

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Overlap is the number of leading blocks of a prompt that one worker holds.
type Overlap struct {
	Worker Worker
	Blocks int32 // in any tier
	GPU    int32 // on the GPU; at most Blocks
}

// Match appends to dst the overlap of each worker that holds the first block of chain, in no
// order. It takes no lock and allocates only to grow dst.
func (x *Index) Match(dst []Overlap, d Domain, chain []Hash) []Overlap {
	v := x.tree.domains.root(d)
	if v == nil || len(chain) == 0 {
		return dst
	}
	t := &x.tree.children
	return x.matchers.chain(dst, t, t.find(v, 0, chain[0]), chain)
}

// MatchTokens is Match for a prompt that it hashes only as far as the match goes: a cold prompt
// of 1,024 blocks costs the hashes of 4. hashes are the prompt's first block hashes if the
// caller has them, from the turn before for example. They are returned with those hashed here
// appended, a prefix of the result of AppendHashes. A blockSize below 1 matches nothing.
func (x *Index) MatchTokens(
	dst []Overlap, hashes []Hash, d Domain, tokens []uint32, blockSize int,
) ([]Overlap, []Hash) {
	v := x.tree.domains.root(d)
	if v == nil || blockSize < 1 {
		return dst, hashes
	}
	c := lazyChain{keys: &x.keys, hashes: hashes, tokens: tokens, size: blockSize}
	if c.reach(0) {
		t := &x.tree.children
		dst = x.matchers.lazyChain(dst, t, t.find(v, 0, c.hashes[0]), &c)
	}
	return dst, c.hashes
}

// MatchPredicted appends to dst, for each worker with a prediction that begins with the first
// block of chain, the predicted overlap: Blocks counts all predictions, and GPU the confirmed
// ones, see [Prediction]. It takes no lock and allocates only to grow dst.
func (x *Index) MatchPredicted(dst []Overlap, s Scope, chain []Hash) []Overlap {
	t := &x.predictions
	if t.runs.Load() == 0 || len(chain) == 0 {
		return dst
	}
	return x.matchers.chain(dst, &t.children, t.find(s, chain[0]), chain)
}

// MatchPredictedTokens is to [Index.MatchPredicted] as [Index.MatchTokens] is to Match. Without
// predictions it hashes nothing.
func (x *Index) MatchPredictedTokens(
	dst []Overlap, hashes []Hash, s Scope, tokens []uint32, blockSize int,
) ([]Overlap, []Hash) {
	t := &x.predictions
	if t.runs.Load() == 0 || blockSize < 1 {
		return dst, hashes
	}
	c := lazyChain{keys: &x.keys, hashes: hashes, tokens: tokens, size: blockSize}
	if c.reach(0) {
		dst = x.matchers.lazyChain(dst, &t.children, t.find(s, c.hashes[0]), &c)
	}
	return dst, c.hashes
}

// matcherPool has the scratch memory of look-ups.
type matcherPool struct {
	workers atomic.Int64 // more than each worker that can be found
	scratch sync.Pool    // of *[]uint32, see matcher.index
}

func (s *matcherPool) init() { s.scratch.New = func() any { return new([]uint32) } }

// expect makes room for a worker that look-ups may find from now on.
func (s *matcherPool) expect(w Worker) {
	for {
		n := s.workers.Load()
		if int64(w) < n || s.workers.CompareAndSwap(n, int64(w)+1) {
			return
		}
	}
}

// begin begins a look-up. The scratch memory goes back to the pool when it ends.
func (s *matcherPool) begin(dst []Overlap) (matcher, *[]uint32) {
	index := s.scratch.Get().(*[]uint32)
	if n := int(s.workers.Load()); len(*index) < n {
		*index = make([]uint32, n)
	}
	return matcher{out: dst, base: len(dst), index: *index}, index
}

// chain walks down from the run that chain begins with, as long as a worker holds all so far.
func (s *matcherPool) chain(dst []Overlap, c *childTable, v *runView, chain []Hash) []Overlap {
	if v == nil {
		return dst
	}
	m, index := s.begin(dst)
	for v != nil {
		rest := chain[m.depth:]
		n := keyed.CommonPrefix(v.hashes(), rest)
		if !m.add(v, n) || n == len(rest) {
			break
		}
		v = c.find(v, uint32(n), rest[n])
	}
	s.scratch.Put(index)
	return m.out
}

// lazyChain is chain for a prompt that is hashed on the way.
func (s *matcherPool) lazyChain(dst []Overlap, c *childTable, v *runView, p *lazyChain) []Overlap {
	if v == nil {
		return dst
	}
	m, index := s.begin(dst)
	for v != nil {
		n := p.commonPrefix(v.hashes(), m.depth)
		if !m.add(v, n) || !p.reach(m.depth) {
			break
		}
		v = c.find(v, uint32(n), p.hashes[m.depth])
	}
	s.scratch.Put(index)
	return m.out
}

// matcher is the state of one look-up.
type matcher struct {
	out   []Overlap
	base  int // out[base:] are of this look-up
	depth int // blocks of the runs before this one
	// index maps a worker to its index in out. It is never cleared: an index is valid only if
	// out agrees (Briggs and Torczon, 1993).
	index []uint32
}

// add adds the first n blocks of the next run, and reports whether a worker holds all so far.
func (m *matcher) add(v *runView, n int) (onward bool) {
	words, t := v.coverages()
	if m.depth == 0 {
		onward = m.addFirst(words, t, int32(n))
	} else {
		onward = m.addNext(words, int32(n))
	}
	m.depth += n
	return onward
}

// addFirst makes an overlap for each worker that holds a part of the first run's first n
// blocks.
func (m *matcher) addFirst(words []atomic.Uint64, t *coverageTable, n int32) (onward bool) {
	reuses := uint32(0)
	if t != nil {
		reuses = t.reuses.Load()
	}
	out := slices.Grow(m.out, len(words))
	k := len(out)
	out = out[:k+len(words)]
	index := m.index
	for i := range words {
		word := words[i].Load()
		blocks, w := min(coveredAny(word), n), coverageWorker(word)
		if blocks == 0 || int(w) >= len(index) { // the latter was added after this look-up began
			continue
		}
		out[k] = Overlap{w, blocks, min(coveredGPU(word), n)}
		index[w] = uint32(k)
		k++
		onward = onward || blocks == n
	}
	m.out = out[:k]
	if t != nil && t.reuses.Load() != reuses {
		m.removeRepeats()
	}
	return onward
}

// removeRepeats drops the second overlap of a worker that has changed its slot meanwhile.
func (m *matcher) removeRepeats() {
	k := m.base
	for i, o := range m.out[m.base:] {
		if int(m.index[o.Worker]) != m.base+i {
			continue
		}
		m.out[k] = o
		m.index[o.Worker] = uint32(k)
		k++
	}
	m.out = m.out[:k]
}

// addNext extends the overlaps of workers that hold all so far by their part of the first n
// blocks of the run that follows.
func (m *matcher) addNext(words []atomic.Uint64, n int32) (onward bool) {
	depth := int32(m.depth)
	for i := range words {
		word := words[i].Load()
		blocks := min(coveredAny(word), n)
		if blocks == 0 {
			continue
		}
		o := m.find(coverageWorker(word))
		if o == nil || o.Blocks != depth {
			continue // a hole before this run
		}
		if o.GPU == depth {
			o.GPU += min(coveredGPU(word), n)
		}
		o.Blocks += blocks
		onward = onward || blocks == n
	}
	return onward
}

// find returns the worker's overlap, or nil.
func (m *matcher) find(w Worker) *Overlap {
	if int(w) >= len(m.index) {
		return nil // added after this look-up began
	}
	i := int(m.index[w])
	if i >= m.base && i < len(m.out) && m.out[i].Worker == w {
		return &m.out[i]
	}
	return nil
}
