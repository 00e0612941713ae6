package queue

import (
	"encoding/binary"
	"math/bits"
)

// Branch says where a prompt lies in the tree of all prompts: a hash for each of
// some of its beginnings, the shortest first. Two prompts have so many leading
// hashes in common as they share beginnings. The beginnings are 1 to 16 units
// long, then every second one of 32 more, every fourth of 64 more and so on, so
// that a shared part is known to a sixteenth of its length and a prompt of
// 128,000 tokens has 143 hashes.
type Branch []uint64

const (
	// unitTokens and unitBytes are about the same length of prompt: a page of most engines.
	unitTokens = 16
	unitBytes  = 64
	// stepMarks is after how many hashes the distance between two doubles.
	stepMarks = 16
)

// AppendTokens appends the branch of a prompt of token ids. seed is all that
// parts the caches of equal prompts: adapter, salt.
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

// AppendText appends the branch of a prompt that is known as text only.
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

// fold takes a word into a hash (a step of splitmix64): 2 ns, on the path of requests that are about to wait.
func fold(h, word uint64) uint64 {
	h = (h ^ word) * 0x9e3779b97f4a7c15
	return bits.RotateLeft64(h, 29) ^ h>>32
}

// unitsOf is how many units the n-th hash of a branch, from 1, stands for.
func unitsOf(n int) int {
	n--
	step := n / stepMarks
	return stepMarks*(1<<step-1) + (n%stepMarks+1)<<step
}

// tokensAt is about how many tokens n shared hashes stand for.
func tokensAt(n int) int {
	if n == 0 {
		return 0
	}
	return unitsOf(n) * unitTokens
}

// recentBranches is how many branches of a lane are remembered: as many as the
// largest usual batch, so that they are what runs there or has just ended.
const recentBranches = 64

// lane is what one rank was given last.
type lane struct {
	recent []Branch // a ring
	next   int
	held   map[uint64]int // how many of recent have the hash
}

func newLane() *lane { return &lane{held: make(map[uint64]int)} }

// depth returns how many leading hashes of b the lane has been given.
func (l *lane) depth(b Branch) int {
	n := 0
	for n < len(b) && l.held[b[n]] > 0 {
		n++
	}
	return n
}

// add remembers b, and forgets the oldest one when there are enough. gained and
// lost hear of hashes that the lane did not have, and no longer has.
func (l *lane) add(b Branch, gained, lost func(h uint64)) {
	for _, h := range b { // first what comes, so that what stays is never lost
		if l.held[h]++; l.held[h] == 1 {
			gained(h)
		}
	}
	if len(l.recent) < recentBranches {
		l.recent = append(l.recent, b)
		return
	}
	l.remove(l.recent[l.next], lost)
	l.recent[l.next] = b
	l.next = (l.next + 1) % recentBranches
}

func (l *lane) remove(b Branch, lost func(h uint64)) {
	for _, h := range b {
		if l.held[h]--; l.held[h] == 0 {
			delete(l.held, h)
			lost(h)
		}
	}
}
