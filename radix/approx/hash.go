package approx

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Key is the hash of one unit of a prompt, without the units before it: the tree gives the
// position. The first key of a chain includes the domain.
type Key uint64

// Domain keeps prompts apart that must never match; [Hasher.Domain] makes it. The zero Domain
// is as good as any other.
type Domain uint64

// A unit is hashed in steps of eight words, by four independent multiplications: 64 bytes of
// text or 16 tokens.
const (
	stepWords  = 8
	stepBytes  = 8 * stepWords
	stepTokens = 2 * stepWords
)

// hashKeys are secret words drawn from the seed: one for each word of a step, and some more.
type hashKeys [stepWords + 4]uint64

// Indexes in hashKeys behind the words of a step.
const (
	keyText   = stepWords + iota // starts a unit of text
	keyTokens                    // starts a unit of tokens, so that the two never match
	keyMix
	keyChild
)

// Hasher cuts prompts into units and hashes them.
type Hasher struct {
	keys       hashKeys
	unitBytes  int
	unitTokens int
	maxChain   int
}

// Domain returns the domain of all that engines keep caches apart by: model, LoRA adapter,
// cache salt. Nothing is stored.
func (h *Hasher) Domain(parts ...string) Domain {
	v := h.keys[keyMix]
	for _, part := range parts {
		// The length comes first, so that ("a", "bc") is not ("ab", "c").
		v = keyed.Fold(v^uint64(len(part)), h.keys[keyText])
		for ; len(part) > 0; part = part[min(8, len(part)):] {
			var word [8]byte
			copy(word[:], part)
			v = keyed.Fold(v^binary.LittleEndian.Uint64(word[:]), h.keys[keyTokens])
		}
	}
	return Domain(v)
}

// AppendText appends the keys of text to dst, one for each whole unit of [Config.UnitBytes];
// the tail is left out.
func (h *Hasher) AppendText(dst []Key, d Domain, text []byte) []Key {
	n, start := min(len(text)/h.unitBytes, h.maxChain), len(dst)
	dst = slices.Grow(dst, n)
	for i := range n {
		dst = append(dst, Key(h.keys.text(text[i*h.unitBytes:(i+1)*h.unitBytes])))
	}
	return h.addDomain(dst, d, start)
}

// AppendTokens appends the keys of token ids to dst, one for each whole unit of
// [Config.UnitTokens]; the tail is left out.
func (h *Hasher) AppendTokens(dst []Key, d Domain, tokens []uint32) []Key {
	n, start := min(len(tokens)/h.unitTokens, h.maxChain), len(dst)
	dst = slices.Grow(dst, n)
	for i := range n {
		dst = append(dst, Key(h.keys.tokens(tokens[i*h.unitTokens:(i+1)*h.unitTokens])))
	}
	return h.addDomain(dst, d, start)
}

// addDomain mixes d into the chain that begins at start.
func (h *Hasher) addDomain(chain []Key, d Domain, start int) []Key {
	if start < len(chain) {
		chain[start] = Key(keyed.Fold(uint64(chain[start])^h.keys[keyChild], uint64(d)^h.keys[keyMix]))
	}
	return chain
}

// join ends a step: h is the unit up to here, the others are the step's four products.
func (k *hashKeys) join(h, a, b, c, d uint64) uint64 {
	return keyed.Fold(h^a^bits.RotateLeft64(b, 23), k[keyMix]^c^bits.RotateLeft64(d, 29))
}

// text hashes a unit whose length is a multiple of stepBytes.
func (k *hashKeys) text(unit []byte) uint64 {
	h := k[keyText]
	for ; len(unit) >= stepBytes; unit = unit[stepBytes:] {
		w := unit[:stepBytes]
		h = k.join(
			h,
			keyed.Fold(binary.LittleEndian.Uint64(w)^k[0], binary.LittleEndian.Uint64(w[8:])^k[1]),
			keyed.Fold(binary.LittleEndian.Uint64(w[16:])^k[2], binary.LittleEndian.Uint64(w[24:])^k[3]),
			keyed.Fold(binary.LittleEndian.Uint64(w[32:])^k[4], binary.LittleEndian.Uint64(w[40:])^k[5]),
			keyed.Fold(binary.LittleEndian.Uint64(w[48:])^k[6], binary.LittleEndian.Uint64(w[56:])^k[7]),
		)
	}
	return h
}

// tokens hashes a unit whose length is a multiple of stepTokens.
func (k *hashKeys) tokens(unit []uint32) uint64 {
	h := k[keyTokens]
	for ; len(unit) >= stepTokens; unit = unit[stepTokens:] {
		w := unit[:stepTokens]
		h = k.join(
			h,
			keyed.Fold(tokenPair(w)^k[0], tokenPair(w[2:])^k[1]),
			keyed.Fold(tokenPair(w[4:])^k[2], tokenPair(w[6:])^k[3]),
			keyed.Fold(tokenPair(w[8:])^k[4], tokenPair(w[10:])^k[5]),
			keyed.Fold(tokenPair(w[12:])^k[6], tokenPair(w[14:])^k[7]),
		)
	}
	return h
}

// tokenPair packs two tokens into a word.
func tokenPair(t []uint32) uint64 {
	return uint64(t[0]) | uint64(t[1])<<32
}
