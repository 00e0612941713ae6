package queue

import (
	"encoding/binary"
	"math/bits"
)

// Branch is the path of a prompt in the tree of all prompts: hashes of some of its beginnings,
// the shortest first. Each hash stands for all tokens before it, so two prompts share as many
// leading hashes as beginnings. The beginnings are 1 to 16 units long, then every second one of
// 32 more, every fourth of 64 more and so on: a shared part is known to a sixteenth of its
// length, and a prompt of 128,000 tokens has 143 hashes.
type Branch []uint64

const (
	// unitTokens and unitBytes are about the same length of prompt: a page of 16 tokens.
	unitTokens = 16
	unitBytes  = 64
	// stepHashes hashes later the distance between two of them doubles.
	stepHashes = 16
)

// AppendTokens appends the branch of a prompt of token ids. seed stands for the domain: adapter
// and cache salt.
func AppendTokens(dst Branch, seed uint64, ids []uint32) Branch {
	h, due := seed, 1
	for unit := 1; unit*unitTokens <= len(ids); unit++ {
		for _, id := range ids[(unit-1)*unitTokens : unit*unitTokens] {
			h = fold(h, uint64(id))
		}
		if unit == due {
			dst = append(dst, h)
			due = unitsOf(len(dst) + 1)
		}
	}
	return dst
}

// AppendText appends the branch of a prompt without token ids.
func AppendText(dst Branch, seed uint64, text []byte) Branch {
	h, due := seed, 1
	for unit := 1; unit*unitBytes <= len(text); unit++ {
		piece := text[(unit-1)*unitBytes : unit*unitBytes]
		for i := 0; i < unitBytes; i += 8 {
			h = fold(h, binary.LittleEndian.Uint64(piece[i:]))
		}
		if unit == due {
			dst = append(dst, h)
			due = unitsOf(len(dst) + 1)
		}
	}
	return dst
}

// fold mixes a word into a hash (a step of splitmix64) in 2 ns.
func fold(h, word uint64) uint64 {
	h = (h ^ word) * 0x9e3779b97f4a7c15
	return bits.RotateLeft64(h, 29) ^ h>>32
}

// unitsOf is the length in units of the beginning of a branch's n-th hash, from 1.
func unitsOf(n int) int {
	n--
	step := n / stepHashes
	return stepHashes*(1<<step-1) + (n%stepHashes+1)<<step
}

// tokensAt is the length in tokens of the beginning that n shared hashes stand for.
func tokensAt(n int) int {
	if n == 0 {
		return 0
	}
	return unitsOf(n) * unitTokens
}
