package routing

import (
	"math/bits"
	"slices"
)

// Fingerprints are hashes of a prompt's beginnings that are equal in every router; block hashes
// are keyed at random in each process. There is one for each fingerprintTokens tokens up to
// eight of them, then eight for each doubling, and a last one for the whole prompt. Two prompts
// with the same fingerprint at one place are equal up to there, except for one pair in 2^32. A
// prompt of 8,192 tokens has 41, one of 100,000 has 69. Fingerprints show at least 8/9 of the
// tokens that two prompts share, and all of them where the prompts are equal.
//
// A collision costs a worse choice: no rank is credited with blocks by a fingerprint.

const (
	fingerprintTokens = 64
	// MaxFingerprints bounds the fingerprints of a prompt: 2^32 tokens have fewer.
	MaxFingerprints = 256
)

// fingerprintAt are the places of fingerprints, in tokens.
var fingerprintAt = func() (at [MaxFingerprints]int) {
	for i, p := 0, 0; i < MaxFingerprints; i++ {
		p += max(fingerprintTokens, 1<<max(bits.Len(uint(p))-1, 0)/8)
		at[i] = p
	}
	return at
}()

// Constants of the mixing step: fractions of the golden ratio and of pi, odd.
const (
	mixStart = 0x9e3779b97f4a7c15
	mixStep  = 0x243f6a8885a308d3
)

func mixWord(h, word uint64) uint64 {
	hi, lo := bits.Mul64(h^word^mixStart, mixStep|1)
	return hi ^ lo
}

// mixString adds a name, so that prompts of another model or adapter differ.
func mixString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = mixWord(h, uint64(s[i]))
	}
	return mixWord(h, uint64(len(s)))
}

// appendFingerprints appends the fingerprints of an exact prompt for a model.
func appendFingerprints(dst []uint32, model string, p *Prompt) []uint32 {
	h := mixString(mixString(mixString(mixStart, model), p.LoRA), p.Salt)
	tokens := p.Tokens
	for at, i := 0, 0; i < MaxFingerprints-1 && fingerprintAt[i] <= len(tokens); i++ {
		for ; at < fingerprintAt[i]; at += 4 { // all places are multiples of 64
			t := tokens[at : at+4 : at+4]
			hi, lo := bits.Mul64(uint64(t[0])|uint64(t[1])<<32^mixStart, uint64(t[2])|uint64(t[3])<<32^h)
			h = hi ^ lo ^ mixStep
		}
		dst = append(dst, uint32(h))
	}
	rest := tokens
	if n := countFingerprints(len(tokens)); n > 1 {
		rest = tokens[fingerprintAt[n-2]:]
	}
	for _, t := range rest {
		h = mixWord(h, uint64(t))
	}
	return append(dst, uint32(mixWord(h, uint64(len(tokens)))))
}

// countFingerprints returns the number of fingerprints of a prompt of that many tokens.
func countFingerprints(tokens int) int {
	n, _ := slices.BinarySearch(fingerprintAt[:MaxFingerprints-1], tokens+1)
	return n + 1
}

// sharedTokens returns the tokens that a prompt shares with another one, of which its first equal
// of all fingerprints are equal.
func sharedTokens(equal, all, tokens int) int {
	switch equal {
	case 0:
		return 0
	case all: // the whole prompt
		return tokens
	}
	return fingerprintAt[equal-1]
}
