package radix

import "github.com/warmpath/warmpath/radix/internal/keyed"

// A lazy chain hashes its first hashFirst blocks, then as many as have matched, but at most
// hashAhead: at 1.3 ns a block, a cold prompt and the end of a match waste little, and many
// blocks share the 10 ns of a round.
const (
	hashFirst = 4
	hashAhead = 128
)

// lazyChain is a prompt with blocks hashed on demand.
type lazyChain struct {
	keys   *hashKeys
	hashes []Hash
	tokens []uint32
	size   int
}

// reach hashes up to block i, and reports whether the prompt has it.
func (p *lazyChain) reach(i int) bool {
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

// commonPrefix returns the number of leading blocks that the prompt continues with at depth.
func (p *lazyChain) commonPrefix(blocks []Hash, depth int) (n int) {
	whole := len(p.tokens) / p.size
	for n < len(blocks) && p.reach(depth+n) {
		ready := p.hashes[depth+n : min(len(p.hashes), whole)]
		same := keyed.CommonPrefix(blocks[n:], ready)
		n += same
		if same < len(ready) {
			break
		}
	}
	return n
}
