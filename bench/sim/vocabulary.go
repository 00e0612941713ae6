package sim

import "strconv"

// The layout of the simulated vocabulary. Text is cut at word boundaries and
// each word into groups of at most three lower-case letters, so that English
// costs about two tokens a word, near what a trained tokenizer gives, without a
// table to load. Whatever is no lower-case letter is one token a byte, so every
// text survives the round trip.
const (
	tokenBOS     = 0
	tokenEOS     = 1
	tokenIMStart = 2
	tokenIMEnd   = 3
	tokenPad     = 4

	byteBase = 16 // 256 single bytes

	letters = 26
	pairs   = letters * letters
	triples = pairs * letters

	spacedOneBase   = byteBase + 256            // " a"
	spacedTwoBase   = spacedOneBase + letters   // " ab"
	spacedThreeBase = spacedTwoBase + pairs     // " abc": all that is ever generated
	twoBase         = spacedThreeBase + triples // "ab"
	threeBase       = twoBase + pairs           // "abc"
	namedTokens     = threeBase + triples

	// vocabularySize is Qwen's: traces that draw random token ids for it fit.
	vocabularySize = 151936
)

// specialTokens are the texts that become one token wherever they stand, as the
// added tokens of a Hugging Face tokenizer do.
func specialTokens() []string {
	return []string{
		tokenBOS:     "<s>",
		tokenEOS:     "</s>",
		tokenIMStart: "<|im_start|>",
		tokenIMEnd:   "<|im_end|>",
		tokenPad:     "<pad>",
	}
}

// generatedToken returns the id of the nth word that the simulated model can say.
// A generated word is one whole chunk (a space and three letters), so its text
// always becomes the same id again, whatever stands before or after it.
func generatedToken(n uint64) uint32 {
	return uint32(spacedThreeBase + n%triples)
}

// appendToken appends the text of one token.
func appendToken(dst []byte, id uint32) []byte {
	switch {
	case id <= tokenPad:
		return append(dst, specialTokens()[id]...)
	case id >= byteBase && id < spacedOneBase:
		return append(dst, byte(id-byteBase))
	case id >= spacedOneBase && id < spacedTwoBase:
		return appendLetters(append(dst, ' '), id-spacedOneBase, 1)
	case id >= spacedTwoBase && id < spacedThreeBase:
		return appendLetters(append(dst, ' '), id-spacedTwoBase, 2)
	case id >= spacedThreeBase && id < twoBase:
		return appendLetters(append(dst, ' '), id-spacedThreeBase, 3)
	case id >= twoBase && id < threeBase:
		return appendLetters(dst, id-twoBase, 2)
	case id >= threeBase && id < namedTokens:
		return appendLetters(dst, id-threeBase, 3)
	}
	// An id that no text produces still needs a text of its own.
	dst = append(dst, " #"...)
	return strconv.AppendUint(dst, uint64(id), 10)
}

// appendLetters writes v as n letters in base 26.
func appendLetters(dst []byte, v uint32, n int) []byte {
	if n == 3 {
		dst = append(dst, byte('a'+v/pairs))
	}
	if n >= 2 {
		dst = append(dst, byte('a'+v/letters%letters))
	}
	return append(dst, byte('a'+v%letters))
}
