package sim

import "strconv"

// The layout of the simulated vocabulary. Text is split at word boundaries, and words into
// groups of at most three lower-case letters: English costs about two tokens a word, near a
// trained tokenizer, without a table to load. Each other byte is a token, so every text
// survives the round trip.
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
	spacedThreeBase = spacedTwoBase + pairs     // " abc": all generated words
	twoBase         = spacedThreeBase + triples // "ab"
	threeBase       = twoBase + pairs           // "abc"
	namedTokens     = threeBase + triples

	// vocabularySize is Qwen's, so traces with random token ids for it fit.
	vocabularySize = 151936
)

// specialTokens are the texts that become one token anywhere, like the added tokens of a
// Hugging Face tokenizer.
func specialTokens() []string {
	return []string{
		tokenBOS:     "<s>",
		tokenEOS:     "</s>",
		tokenIMStart: "<|im_start|>",
		tokenIMEnd:   "<|im_end|>",
		tokenPad:     "<pad>",
	}
}

// generatedToken returns the id of the nth word of the simulated model. Such a word is a space
// and three letters, so its text becomes the same id again in any context.
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
	// An id that no text produces still has a text of its own.
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
