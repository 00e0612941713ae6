package kvevent

import (
	"crypto/sha256"
	"encoding/binary"
)

// saltSeed precedes a cache salt in the digest that seeds a salted chain (SGLang, mem_cache/utils.py).
const saltSeed = "sglang-cache-salt-v1\x00"

// Chain computes the hashes by which SGLang names the pages of one sequence: SHA-256 over the previous page's digest
// and the page's tokens. The hash depends on nothing else, so it is the same on every worker. The zero value is the root
// of unsalted sequences. A copy is a fork that shares scratch memory: for another goroutine take ContinueChain(Digest()).
//
// A page with a token above uint32 is hashed otherwise by SGLang (ff, then all of the page's tokens as u64) and cannot be
// named by this package.
type Chain struct {
	digest [sha256.Size]byte
	linked bool
	buf    []byte
}

// NewChain returns the root of sequences that carry salt; "" is no salt.
func NewChain(salt string) Chain {
	if salt == "" {
		return Chain{}
	}
	return Chain{digest: sha256.Sum256([]byte(saltSeed + salt)), linked: true}
}

// ContinueChain returns a chain that goes on after the page whose digest is parent.
func ContinueChain(parent [sha256.Size]byte) Chain { return Chain{digest: parent, linked: true} }

// Next adds a page and returns its hash, which as int64 is the number in SGLang's events. For a bigram page tokens are
// the flattened pairs. It allocates only when a page is longer than all before.
func (c *Chain) Next(page []uint32) uint64 {
	b := c.buf[:0]
	if c.linked {
		b = append(b, c.digest[:]...)
	}
	for _, t := range page {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	c.buf = b
	c.digest = sha256.Sum256(b)
	c.linked = true
	return binary.BigEndian.Uint64(c.digest[:])
}

// Digest returns the digest of the last page, from which [ContinueChain] goes on.
func (c *Chain) Digest() [sha256.Size]byte { return c.digest }

// SGLangHashes appends the hashes of tokens' whole pages of pageSize to dst. A tail shorter than a page has none.
func SGLangHashes(dst []uint64, tokens []uint32, pageSize int, salt string) []uint64 {
	c := NewChain(salt)
	for ; pageSize > 0 && len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		dst = append(dst, c.Next(tokens[:pageSize]))
	}
	return dst
}
