package kvevent

import (
	"crypto/sha256"
	"encoding/binary"
)

// saltSeed precedes a cache salt in the digest that seeds a salted chain (SGLang,
// mem_cache/utils.py).
const saltSeed = "sglang-cache-salt-v1\x00"

// Chain computes SGLang's hashes of the pages of one sequence: SHA-256 over the previous page's
// digest and the page's tokens. So a hash is the same on every worker. The zero value is the
// root of unsalted sequences. A copy is a fork that shares scratch memory; another goroutine
// uses ContinueChain(Digest()) instead.
//
// SGLang hashes a page with a token above uint32 in another way (ff, then all tokens of the
// page as u64), which this package does not support.
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

// ContinueChain returns the chain after the page with the digest parent.
func ContinueChain(parent [sha256.Size]byte) Chain { return Chain{digest: parent, linked: true} }

// Next adds a page and returns its hash; as int64 it is the number in SGLang's events. A bigram
// page is passed as flattened pairs. Next allocates only for a page longer than all before.
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

// Digest returns the digest of the last page, for [ContinueChain].
func (c *Chain) Digest() [sha256.Size]byte { return c.digest }
