package radix

// Overlap is what one worker holds of a chain.
type Overlap struct {
	Worker Worker
	Blocks int // leading blocks held in any tier
	GPU    int // leading blocks held on the GPU; at most Blocks
}

// Match appends to dst, for each worker that holds the first block of chain, how many leading blocks it holds, in no order.
// It takes no lock and allocates only to grow dst.
func (x *Index) Match(dst []Overlap, d Domain, chain []Hash) []Overlap {
	r := x.root(d)
	if r == nil || len(chain) == 0 {
		return dst
	}
	m, seat := x.matching(dst)
	at := 0
	for m.depth < len(chain) {
		r = x.children.find(r, uint32(at), chain[m.depth])
		if r == nil {
			break
		}
		at = agree(r.hashes(), chain[m.depth:])
		if !m.visit(r, at) {
			break
		}
	}
	x.scratch.Put(seat)
	return m.out
}

// hashAhead is how many blocks MatchTokens hashes before it compares them: what agree compares at once. More would be hashed in vain
// where a match ends, at 4.7 ns each.
const hashAhead = 32

// MatchTokens is Match for a prompt whose blocks are hashed only as far as the match goes: a cold prompt of 1,024 blocks
// costs the hashes of 32. hashes are those of the prompt's first blocks that the caller has, from the turn before for example;
// it returns them with what it has hashed appended, a prefix of [Index.AppendHashes]. A blockSize below 1 matches nothing.
func (x *Index) MatchTokens(dst []Overlap, hashes []Hash, d Domain, tokens []uint32, blockSize int) ([]Overlap, []Hash) {
	r := x.root(d)
	if r == nil || blockSize < 1 {
		return dst, hashes
	}
	p := prompt{keys: &x.keys, hashes: hashes, tokens: tokens, size: blockSize}
	m, seat := x.matching(dst)
	at := 0
	for p.reach(m.depth) {
		r = x.children.find(r, uint32(at), p.hashes[m.depth])
		if r == nil {
			break
		}
		at = p.agree(r.hashes(), m.depth)
		if !m.visit(r, at) {
			break
		}
	}
	x.scratch.Put(seat)
	return m.out, p.hashes
}

// prompt is a chain that is hashed as it is needed.
type prompt struct {
	keys   *keys
	hashes []Hash
	tokens []uint32
	size   int
}

// reach makes sure that block i is hashed, if there is one.
func (p *prompt) reach(i int) bool {
	whole := len(p.tokens) / p.size
	if i >= whole {
		return false
	}
	if i < len(p.hashes) {
		return true
	}
	hashes := p.hashes
	for rest := p.tokens[len(hashes)*p.size : min(whole, i+hashAhead)*p.size]; len(rest) > 0; rest = rest[p.size:] {
		hashes = append(hashes, p.keys.block(rest[:p.size]))
	}
	p.hashes = hashes
	return true
}

// agree returns how many of blocks the prompt goes on with at depth.
func (p *prompt) agree(blocks []Hash, depth int) (n int) {
	whole := len(p.tokens) / p.size
	for n < len(blocks) && p.reach(depth+n) {
		ready := p.hashes[depth+n : min(len(p.hashes), whole)]
		same := agree(blocks[n:], ready)
		n += same
		if same < len(ready) {
			break
		}
	}
	return n
}

// matching begins a look-up. The seat goes back to x.scratch.
func (x *Index) matching(dst []Overlap) (matching, *[]uint32) {
	seat := x.scratch.Get().(*[]uint32)
	if workers := len(*x.workers.Load()); len(*seat) < workers {
		*seat = make([]uint32, workers)
	}
	return matching{out: dst, base: len(dst), seat: *seat}, seat
}

// matching is the state of one look-up.
type matching struct {
	out   []Overlap
	base  int      // out[base:] are ours
	depth int      // blocks of the runs before this one
	seat  []uint32 // worker to index in out. Never cleared: an index is right only if out agrees (Briggs and Torczon, 1993)
}

// visit credits what workers hold of the next run's first n blocks, and reports whether anyone holds all so far.
func (m *matching) visit(r *run, n int) bool {
	l := r.leads.Load()
	if l == nil {
		return false
	}
	onward := false
	used := int(l.used.Load())
	for i := range l.words[:used] {
		v := l.words[i].Load()
		blocks, gpu := min(leadAny(v), n), min(leadGPU(v), n)
		if blocks == 0 {
			continue
		}
		o := m.find(leadWorker(v))
		if o == nil || o.Blocks != m.depth {
			continue // a hole before this run
		}
		if o.GPU == m.depth {
			o.GPU += gpu
		}
		o.Blocks += blocks
		onward = onward || blocks == n
	}
	m.depth += n
	return onward
}

// find returns the worker's overlap. In the first run, it is made.
func (m *matching) find(w Worker) *Overlap {
	if int(w) >= len(m.seat) {
		return nil // added after this look-up began
	}
	i := int(m.seat[w])
	if i >= m.base && i < len(m.out) && m.out[i].Worker == w {
		return &m.out[i]
	}
	if m.depth > 0 {
		return nil
	}
	i = len(m.out)
	m.seat[w] = uint32(i)
	m.out = append(m.out, Overlap{Worker: w})
	return &m.out[i]
}
