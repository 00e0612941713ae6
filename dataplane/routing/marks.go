package routing

import (
	"math/bits"
	"slices"
)

// Marks are fingerprints of a prompt's beginnings, the same in every router: block hashes are keyed
// at random in each process. There is one for each markTokens tokens up to eight of them, from
// there on eight for each doubling, and the last one for the whole prompt. Two prompts with the
// same mark at one place are equal up to there, but for one pair in 2^32. A prompt of 8,192 tokens
// has 41, one of 100,000 has 69; of what two prompts share they show at least 8/9, and all of it
// where the prompts are equal.
//
// A collision, made or by chance, costs a worse choice: nobody is credited with KV by a mark.

const (
	markTokens = 64
	// MostMarks bounds the marks of a prompt: 2^32 tokens have fewer.
	MostMarks = 256
)

// markAt are the places of marks, in tokens.
var markAt = func() (at [MostMarks]int) {
	for i, p := 0, 0; i < MostMarks; i++ {
		p += max(markTokens, 1<<max(bits.Len(uint(p))-1, 0)/8)
		at[i] = p
	}
	return at
}()

// Numbers of the mixing step: fractions of the golden ratio and of pi, odd.
const (
	markStart = 0x9e3779b97f4a7c15
	markMix   = 0x243f6a8885a308d3
)

func mark(h, word uint64) uint64 {
	hi, lo := bits.Mul64(h^word^markStart, markMix|1)
	return hi ^ lo
}

// markString mixes a name in, so that one model's prompts are not another's.
func markString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = mark(h, uint64(s[i]))
	}
	return mark(h, uint64(len(s)))
}

// appendMarks appends the marks of an exact prompt for a model.
func appendMarks(dst []uint32, model string, p *Prompt) []uint32 {
	h := markString(markString(markString(markStart, model), p.LoRA), p.Salt)
	tokens := p.Tokens
	for at, i := 0, 0; i < MostMarks-1 && markAt[i] <= len(tokens); i++ {
		for ; at < markAt[i]; at += 4 { // all places are multiples of 64
			t := tokens[at : at+4 : at+4]
			hi, lo := bits.Mul64(uint64(t[0])|uint64(t[1])<<32^markStart, uint64(t[2])|uint64(t[3])<<32^h)
			h = hi ^ lo ^ markMix
		}
		dst = append(dst, uint32(h))
	}
	rest := tokens
	if n := marksOf(len(tokens)); n > 1 {
		rest = tokens[markAt[n-2]:]
	}
	for _, t := range rest {
		h = mark(h, uint64(t))
	}
	return append(dst, uint32(mark(h, uint64(len(tokens)))))
}

// marksOf is how many marks a prompt of that many tokens has.
func marksOf(tokens int) int {
	n, _ := slices.BinarySearch(markAt[:MostMarks-1], tokens+1)
	return n + 1
}

// common returns how many tokens two prompts are known to share.
func common(tokens int, marks []uint32, others int, other []uint32) int {
	n, m := len(marks), len(other)
	if n == 0 || m == 0 {
		return 0
	}
	if tokens == others && n == m && marks[n-1] == other[m-1] {
		return tokens
	}
	// Each mark stands for all before it, so equal ones come first.
	low, high := 0, min(n, m)-1
	for low < high {
		mid := (low + high) / 2
		if marks[mid] == other[mid] {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return 0
	}
	return markAt[low-1]
}
