package radix

// MatchTokens hashes hashFirst blocks, and then as many as have matched, but hashAhead at most: at 1.3 ns a block, a cold prompt and
// the end of a match cost little in vain, and what a round costs by itself (10 ns) is shared by many blocks.
const (
	hashFirst = 4
	hashAhead = 128
)

// MatchTokens is Match for a prompt whose blocks are hashed only as far as the match goes: a cold prompt of 1,024 blocks
// costs the hashes of 4. hashes are those of the prompt's first blocks that the caller has, from the turn before for example;
// it returns them with what it has hashed appended, a prefix of [Index.AppendHashes]. A blockSize below 1 matches nothing.
func (x *Index) MatchTokens(dst []Overlap, hashes []Hash, d Domain, tokens []uint32, blockSize int) ([]Overlap, []Hash) {
	f := x.root(d)
	if f == nil || blockSize < 1 {
		return dst, hashes
	}
	p := prompt{keys: &x.keys, hashes: hashes, tokens: tokens, size: blockSize}
	if p.reach(0) {
		dst = x.walkTokens(dst, &x.children, x.children.find(f, 0, p.hashes[0]), &p)
	}
	return dst, p.hashes
}

// ForeseeTokens is to [Index.Foresee] what [Index.MatchTokens] is to Match. Without predictions it hashes nothing.
func (x *Index) ForeseeTokens(dst []Overlap, hashes []Hash, s Scope, tokens []uint32, blockSize int) ([]Overlap, []Hash) {
	if x.foretold.runs.Load() == 0 || blockSize < 1 {
		return dst, hashes
	}
	p := prompt{keys: &x.keys, hashes: hashes, tokens: tokens, size: blockSize}
	if p.reach(0) {
		dst = x.walkTokens(dst, &x.foretold.children, x.foretold.first(s, p.hashes[0]), &p)
	}
	return dst, p.hashes
}

// walkTokens is walk for a chain that is hashed on the way.
func (x *Index) walkTokens(dst []Overlap, c *children, f *face, p *prompt) []Overlap {
	if f == nil {
		return dst
	}
	m, seat := x.matching(dst)
	for f != nil {
		n := p.agree(f.hashes(), m.depth)
		if !m.visit(f, n) || !p.reach(m.depth) {
			break
		}
		f = c.find(f, uint32(n), p.hashes[m.depth])
	}
	x.scratch.Put(seat)
	return m.out
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
	until := min(whole, i+min(max(i, hashFirst), hashAhead))
	p.hashes = p.keys.append(p.hashes, p.tokens[len(p.hashes)*p.size:until*p.size], p.size)
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
