package routing

import (
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/radix/approx"
)

// Scratch is the memory of a request, from its choice to its end, reused by the next one: the names
// of its prompt's beginnings in the router's tables, as far as they were needed.
type Scratch struct {
	blocks []radix.Hash // of the prompt, as far as they are known: in chain, or the prompt's own
	chain  []radix.Hash
	keys   []approx.Key
	keyed  bool // keys are the prompt's
	shared sharedPrompt
	turn   turnMatch
	answer []radix.Hash
}

// keptHashes bounds the memory that is kept of a prompt's hashes: 1 MiB, a million tokens in blocks
// of 8.
const keptHashes = 128 << 10

// Trim frees the memory of an unusually long prompt before s goes back to a pool. Decisions
// made with s are invalid afterwards.
func (s *Scratch) Trim() {
	s.blocks = nil // another name of chain, or the caller's
	if cap(s.chain) > keptHashes {
		s.chain = nil
	}
}
