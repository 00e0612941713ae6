package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"
)

// The cache of pieces. Text repeats its words, so nearly every piece was seen before, and its
// tokens are one look-up.
//
// A slot is a cache line that contains its piece and ids: no pointers for the garbage collector, no
// allocation to fill it. Readers take no lock. A slot carries a version, which is odd during a
// write; a reader that finds another version after reading than before discards its read. All words
// are atomics, which on amd64 and arm64 are plain loads.

const (
	// Longest piece of a slot, in bytes; 99.7 % of the pieces of English prose and of code are
	// shorter.
	slotKey = 24
	slotIDs = 8   // most ids of a slot
	maxLong = 256 // longest cached piece, in bytes, as in the library
)

// slot is: a header, 24 bytes of the piece, eight ids. The header is version << 16 | length << 8 |
// ids, and 0 when empty.
type slot [8]atomic.Uint64

// key is a piece of at most slotKey bytes as words; with its length it tells pieces apart.
type key [3]uint64

// keyOf packs s, of 1 to slotKey bytes. Words overlap where s is not a multiple of eight long;
// together with the length, the key still determines the piece.
func keyOf(s string) key {
	switch n := len(s); {
	case n > 16:
		return key{load64(s, 0), load64(s, 8), load64(s, n-8)}
	case n >= 8:
		return key{load64(s, 0), load64(s, n-8)}
	case n >= 4:
		return key{uint64(load32(s, 0))<<32 | uint64(load32(s, n-4))}
	default:
		return key{uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16}
	}
}

func load64(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func load32(s string, i int) uint32 {
	s = s[i : i+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// hash mixes the words as wyhash does. It need not resist an attacker: colliding pieces only miss
// the cache.
func (k key) hash(n int) uint64 {
	hi, lo := bits.Mul64(k[0]^0xA0761D6478BD642F, k[1]^uint64(n)^0xE7037ED1A0B428DB)
	hi, lo = bits.Mul64(hi^lo^k[2], 0x8EBC6AF09C88C6E3)
	return hi ^ lo
}

// cache maps pieces to their tokens. It may be used concurrently.
type cache struct {
	slots []slot
	long  []atomic.Pointer[longPiece]
	seed  maphash.Seed
}

// longPiece is a piece that no slot holds, such as a clause of Chinese. It is never changed.
type longPiece struct {
	text string
	ids  []uint32
}

// newCache has room for 2^bits short pieces and a sixteenth as many long ones.
func newCache(bits int) *cache {
	return &cache{
		slots: make([]slot, 1<<bits),
		long:  make([]atomic.Pointer[longPiece], max(2, 1<<bits/16)),
		seed:  maphash.MakeSeed(),
	}
}

// get appends the ids of a short piece and reports whether it was there.
func (c *cache) get(dst []uint32, k key, n int, hash uint64) ([]uint32, bool) {
	i := hash & uint64(len(c.slots)-1)
	if dst, ok := c.slots[i].read(dst, k, n); ok {
		return dst, true
	}
	return c.slots[i^1].read(dst, k, n)
}

func (s *slot) read(dst []uint32, k key, n int) ([]uint32, bool) {
	header := s[0].Load()
	if header>>8&0xFF != uint64(n) || header>>16&1 != 0 || s[1].Load() != k[0] || s[2].Load() != k[1] || s[3].Load() != k[2] {
		return dst, false
	}
	w := s[4].Load()
	count := int(header & 0xFF)
	if count == 1 {
		if s[0].Load() != header {
			return dst, false
		}
		return append(dst, uint32(w)), true
	}
	var ids [slotIDs]uint32
	for i := 0; ; {
		ids[i], ids[i+1] = uint32(w), uint32(w>>32)
		if i += 2; i >= count {
			break
		}
		w = s[4+i/2].Load()
	}
	if s[0].Load() != header {
		return dst, false
	}
	return append(dst, ids[:count]...), true
}

// put remembers a short piece. It may drop another one; where two writers meet, one gives up.
func (c *cache) put(k key, n int, hash uint64, ids []uint32) {
	i := hash & uint64(len(c.slots)-1)
	a, b := &c.slots[i], &c.slots[i^1]
	switch headerA, headerB := a[0].Load(), b[0].Load(); {
	case headerA == 0:
		a.write(headerA, k, n, ids)
	case headerB == 0 || hash>>63 != 0:
		// Both taken: the top bit of the hash chooses, so half of the pieces take turns.
		b.write(headerB, k, n, ids)
	default:
		a.write(headerA, k, n, ids)
	}
}

func (s *slot) write(header uint64, k key, n int, ids []uint32) {
	version := header >> 16
	if version&1 != 0 || !s[0].CompareAndSwap(header, (version+1)<<16) {
		return
	}
	for i, w := range k {
		s[1+i].Store(w)
	}
	for i := 0; i < len(ids); i += 2 {
		w := uint64(ids[i])
		if i+1 < len(ids) {
			w |= uint64(ids[i+1]) << 32
		}
		s[4+i/2].Store(w)
	}
	s[0].Store((version+2)<<16 | uint64(n)<<8 | uint64(len(ids)))
}

// getLong is get for a piece of more than slotKey bytes.
func (c *cache) getLong(dst []uint32, s string) ([]uint32, bool) {
	i := c.longIndex(s)
	if p := c.long[i].Load(); p != nil && p.text == s {
		return append(dst, p.ids...), true
	}
	if p := c.long[i^1].Load(); p != nil && p.text == s {
		return append(dst, p.ids...), true
	}
	return dst, false
}

// putLong is put for a piece of more than slotKey bytes. It copies both.
func (c *cache) putLong(s string, ids []uint32) {
	i := c.longIndex(s)
	// As in put: a free slot of the two, else the one that the piece's own hash chooses.
	if c.long[i].Load() != nil && (c.long[i^1].Load() == nil || len(s)&1 != 0) {
		i ^= 1
	}
	c.long[i].Store(&longPiece{strings.Clone(s), append([]uint32(nil), ids...)})
}

func (c *cache) longIndex(s string) uint64 {
	return maphash.String(c.seed, s) & uint64(len(c.long)-1)
}
