package radix

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Hash is the hash of one block's tokens, and of nothing before it: the tree gives the position. It is keyed by the index's seed.
type Hash uint64

// keys are secret odd-looking words drawn from the seed; one for each input word of a chunk, and some more.
type keys [13]uint64

// Places in keys beyond the eight that a chunk uses.
const (
	keyLength = 8 + iota
	keyTail
	keyMix
	keyChild
	keyPlace
)

// newKeys expands the seed with splitmix64 (Steele, Lea and Flood, 2014), which never repeats a word within a stream.
func newKeys(seed uint64) keys {
	var k keys
	for i := range k {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		k[i] = z ^ z>>31
	}
	return k
}

// fold multiplies to 128 bits and folds the halves together, the mixing step of wyhash.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// pair packs two tokens into a word.
func pair(t []uint32) uint64 {
	return uint64(t[0]) | uint64(t[1])<<32
}

// chunk is the number of tokens that are mixed by four independent multiplications: SGLang's and vLLM's usual block.
const chunk = 16

// HashBlock hashes the tokens of one block: four independent multiply-folds for each 16 tokens, chained by a fifth; the tail goes
// pair by pair, and the length is mixed in first. Each input word meets a secret word of its own, so equal words at different
// places do not cancel, and who does not know the seed cannot build a collision. Two different blocks collide with
// a probability of about 2^-64.
func (x *Index) HashBlock(tokens []uint32) Hash {
	return x.keys.block(tokens)
}

func (k *keys) block(tokens []uint32) Hash {
	h := uint64(len(tokens)) ^ k[keyLength]
	for ; len(tokens) >= chunk; tokens = tokens[chunk:] {
		t := tokens[:chunk]
		a := fold(pair(t[0:])^k[0], pair(t[2:])^k[1])
		b := fold(pair(t[4:])^k[2], pair(t[6:])^k[3])
		c := fold(pair(t[8:])^k[4], pair(t[10:])^k[5])
		d := fold(pair(t[12:])^k[6], pair(t[14:])^k[7])
		h = fold(h^a^bits.RotateLeft64(b, 23), k[keyTail]^c^bits.RotateLeft64(d, 29))
	}
	if len(tokens) > 0 {
		h = k.tail(h, tokens)
	}
	return Hash(h)
}

// tail mixes less than a chunk into h.
func (k *keys) tail(h uint64, tokens []uint32) uint64 {
	for ; len(tokens) >= 2; tokens = tokens[2:] {
		h = fold(h^pair(tokens), k[keyTail])
	}
	if len(tokens) == 1 {
		h = fold(h^uint64(tokens[0]), k[keyTail])
	}
	// One fold by a constant flips 35 bits for one instead of 32; a second one evens that out.
	return fold(h^k[keyLength], k[keyMix])
}

// AppendHashes appends the hash of each whole block of tokens to dst; a tail shorter than blockSize is left out, as engines
// never publish it. A blockSize below 1 appends nothing.
func (x *Index) AppendHashes(dst []Hash, tokens []uint32, blockSize int) []Hash {
	if blockSize < 1 {
		return dst
	}
	n := len(tokens) / blockSize
	dst = slices.Grow(dst, n)
	for i := range n {
		dst = append(dst, x.keys.block(tokens[i*blockSize:(i+1)*blockSize]))
	}
	return dst
}

// Mix returns h with the extra keys of its block mixed in (vLLM's extra_keys: image hashes, for example). It is chained, so
// order matters, and mixing in an empty key differs from mixing in none.
func (x *Index) Mix(h Hash, extra []byte) Hash {
	k := x.keys[keyMix]
	v := fold(uint64(h)^k, uint64(len(extra))^x.keys[keyLength])
	for ; len(extra) >= 8; extra = extra[8:] {
		v = fold(v^binary.LittleEndian.Uint64(extra), k)
	}
	if len(extra) > 0 {
		var tail [8]byte
		copy(tail[:], extra)
		v = fold(v^binary.LittleEndian.Uint64(tail[:]), k)
	}
	return Hash(v)
}
