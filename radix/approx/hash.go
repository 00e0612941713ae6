package approx

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// Key is the hash of one unit of a prompt, and of nothing before it: the tree gives the position. The first key of a chain holds
// the chain's domain too.
type Key uint64

// Domain keeps prompts apart that must never meet; make it with [Tree.Domain]. The zero Domain is as good as any other.
type Domain uint64

// A unit is hashed in steps of eight words, by four independent multiplications: 64 bytes of text or 16 tokens.
const (
	stepWords  = 8
	stepBytes  = 8 * stepWords
	stepTokens = 2 * stepWords
)

// unitWords is the words of the longest unit that the CPU's carry-less products are used for: each of them meets a secret word of its
// own.
const unitWords = 8 * stepWords

// keys are secret words drawn from the seed; one for each input word of a step, some more, and one for each word of a unit.
type keys [keyUnit + unitWords]uint64

// Places in keys beyond those that a step uses.
const (
	keyText   = stepWords + iota // starts a unit of text
	keyTokens                    // starts a unit of tokens, so that the two never meet
	keyMix
	keyChild
	keyUnit
)

func newKeys(seed uint64) (k keys) {
	keyed.Fill(k[:], seed)
	return k
}

// join ends a step: h is the unit up to here, the rest its four products.
func (k *keys) join(h, a, b, c, d uint64) uint64 {
	return keyed.Fold(h^a^bits.RotateLeft64(b, 23), k[keyMix]^c^bits.RotateLeft64(d, 29))
}

// text hashes a unit whose length is a multiple of stepBytes.
func (k *keys) text(unit []byte) uint64 {
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

// pair packs two tokens into a word.
func pair(t []uint32) uint64 {
	return uint64(t[0]) | uint64(t[1])<<32
}

// tokens hashes a unit whose length is a multiple of stepTokens.
func (k *keys) tokens(unit []uint32) uint64 {
	h := k[keyTokens]
	for ; len(unit) >= stepTokens; unit = unit[stepTokens:] {
		w := unit[:stepTokens]
		h = k.join(
			h,
			keyed.Fold(pair(w)^k[0], pair(w[2:])^k[1]),
			keyed.Fold(pair(w[4:])^k[2], pair(w[6:])^k[3]),
			keyed.Fold(pair(w[8:])^k[4], pair(w[10:])^k[5]),
			keyed.Fold(pair(w[12:])^k[6], pair(w[14:])^k[7]),
		)
	}
	return h
}

// Domain returns the domain of the parts that an engine keeps caches apart by: model, LoRA adapter, cache salt. Nothing is stored.
func (t *Tree) Domain(parts ...string) Domain {
	h := t.keys[keyMix]
	for _, part := range parts {
		// The length comes first, so that ("a", "bc") is not ("ab", "c").
		h = keyed.Fold(h^uint64(len(part)), t.keys[keyText])
		for ; len(part) > 0; part = part[min(8, len(part)):] {
			var word [8]byte
			copy(word[:], part)
			h = keyed.Fold(h^binary.LittleEndian.Uint64(word[:]), t.keys[keyTokens])
		}
	}
	return Domain(h)
}

// AppendText appends the keys of text to dst, one for each whole unit of [Config.UnitBytes]; the tail is left out.
func (t *Tree) AppendText(dst []Key, d Domain, text []byte) []Key {
	n, start := min(len(text)/t.unitBytes, t.maxChain), len(dst)
	dst = slices.Grow(dst, n)
	if t.keys.units(dst[start:start+n], unsafe.Pointer(unsafe.SliceData(text)), t.unitBytes, t.keys[keyText]) {
		return t.enter(dst[:start+n], d, start)
	}
	for i := range n {
		dst = append(dst, Key(t.keys.text(text[i*t.unitBytes:(i+1)*t.unitBytes])))
	}
	return t.enter(dst, d, start)
}

// AppendTokens appends the keys of token ids to dst, one for each whole unit of [Config.UnitTokens]; the tail is left out.
func (t *Tree) AppendTokens(dst []Key, d Domain, tokens []uint32) []Key {
	n, start := min(len(tokens)/t.unitTokens, t.maxChain), len(dst)
	dst = slices.Grow(dst, n)
	if t.keys.units(dst[start:start+n], unsafe.Pointer(unsafe.SliceData(tokens)), 4*t.unitTokens, t.keys[keyTokens]) {
		return t.enter(dst[:start+n], d, start)
	}
	for i := range n {
		dst = append(dst, Key(t.keys.tokens(tokens[i*t.unitTokens:(i+1)*t.unitTokens])))
	}
	return t.enter(dst, d, start)
}

// enter puts the chain that begins at start into d.
func (t *Tree) enter(chain []Key, d Domain, start int) []Key {
	if start < len(chain) {
		chain[start] = Key(keyed.Fold(uint64(chain[start])^t.keys[keyChild], uint64(d)^t.keys[keyMix]))
	}
	return chain
}
