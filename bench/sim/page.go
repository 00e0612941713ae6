package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// digest identifies a page and all before it (see [kvevent.Chain]). The cache stores it with
// the page, so no page is hashed twice.
type digest [sha256.Size]byte

// hash returns the hash in events: the first eight bytes, big-endian.
func (d *digest) hash() uint64 { return binary.BigEndian.Uint64(d[:8]) }

// appendDigests appends the digest of each whole page of tokens, continuing c.
func appendDigests(dst []digest, c kvevent.Chain, tokens []uint32, page int) []digest {
	for ; len(tokens) >= page; tokens = tokens[page:] {
		c.Next(tokens[:page])
		dst = append(dst, c.Digest())
	}
	return dst
}

// appendPage appends tokens as bytes: a page's key among its siblings.
func appendPage(dst []byte, tokens []uint32) []byte {
	for _, t := range tokens {
		dst = binary.LittleEndian.AppendUint32(dst, t)
	}
	return dst
}

// domain is an isolated part of the cache: prompts of different domains never share a page.
type domain struct {
	extraKey string // Isolates, but is in no event.
	salt     string // Isolates, and seeds the hash.
	lora     string // Adapter's name; it namespaces the events.
}

// namespace returns SGLang's seed for the published hashes of an adapter's pages, or nil.
// Presence bytes and lengths keep ("a", "bc") and ("ab", "c") apart.
func (s domain) namespace() *digest {
	if s.lora == "" {
		return nil
	}
	key := s.extraKey + loraID(s.lora)
	b := append([]byte("sglang-kv-event-namespace-v1"), 1)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(key)))
	b = append(b, key...)
	d := digest(sha256.Sum256(append(b, 0))) // 0: no salt, which is in the hash already.
	return &d
}

// loraID stands for the uuid that SGLang draws when it loads an adapter: 32 hex digits that no
// router can guess.
func loraID(name string) string {
	sum := sha256.Sum256([]byte("lora\x00" + name))
	return hex.EncodeToString(sum[:16])
}

// namespaced returns the published form of hash h in the namespace of seed.
func namespaced(h uint64, seed *digest) uint64 {
	if seed == nil {
		return h
	}
	var b [sha256.Size + 8]byte
	copy(b[:], seed[:])
	binary.BigEndian.PutUint64(b[sha256.Size:], h)
	d := digest(sha256.Sum256(b[:]))
	return d.hash()
}
