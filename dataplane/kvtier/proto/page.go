package proto

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash names a page by its tokens and all tokens before them. It is the hash of SGLang's storage:
// SHA256(previous hash || tokens as little-endian uint32).
type Hash [32]byte

// Name returns the first 8 bytes of h, big-endian, as SGLang's KV events do. Announcements carry
// names instead of hashes.
func (h Hash) Name() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// PageHashes hashes the whole pages of a prompt. A cache salt puts SaltSeed before the first
// page; "" is no salt.
func PageHashes(tokens []uint32, pageSize int, salt string) []Hash {
	return PageHashesOf(TokenBytes(tokens), pageSize, salt)
}

// TokenBytes returns token ids in 4 bytes each, little-endian.
func TokenBytes(tokens []uint32) []byte {
	ids := make([]byte, 0, 4*len(tokens))
	for _, id := range tokens {
		ids = binary.LittleEndian.AppendUint32(ids, id)
	}
	return ids
}

// PageHashesOf is PageHashes of token ids in 4 bytes each, little-endian.
func PageHashesOf(ids []byte, pageSize int, salt string) []Hash {
	page := 4 * pageSize
	hashes := make([]Hash, 0, len(ids)/page)
	buf := make([]byte, 0, len(Hash{})+page)
	if salt != "" {
		seed := SaltSeed(salt)
		buf = append(buf, seed[:]...)
	}
	for ; len(ids) >= page; ids = ids[page:] {
		h := Hash(sha256.Sum256(append(buf, ids[:page]...)))
		hashes = append(hashes, h)
		buf = append(buf[:0], h[:]...)
	}
	return hashes
}

// SaltSeed returns the hash before the first page of prompts with a cache salt:
// storage_namespace_seed in mem_cache/utils.py of SGLang 0.5.23. The bytes are a mark, 0 for no
// extra_key, 1 for a salt, its length and the salt. Hashes in KV events have another seed.
func SaltSeed(salt string) Hash {
	var room [256]byte // the usual salt needs no allocation
	b := append(room[:0], "sglang-cache-namespace-v1\x00\x01"...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(salt)))
	return sha256.Sum256(append(b, salt...))
}
