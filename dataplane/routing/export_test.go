package routing

import "time"

// AppendFingerprints appends the fingerprints of a prompt.
func AppendFingerprints(dst []uint32, model string, p *Prompt) []uint32 {
	return appendFingerprints(dst, model, p)
}

// CountFingerprints returns the number of fingerprints of a prompt.
func CountFingerprints(tokens int) int { return countFingerprints(tokens) }

// SharedTokens returns the tokens that two prompts share by their fingerprints.
func SharedTokens(tokens int, fingerprints []uint32, otherTokens int, other []uint32) int {
	return sharedTokens(tokens, fingerprints, otherTokens, other)
}

// FingerprintAt returns the place of a fingerprint.
func FingerprintAt(i int) int { return fingerprintAt[i] }

// Len returns the number of shared predictions.
func (x *SharedPredictions) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.all)
}

// Find returns the number of ranks that are about to compute a part of a prompt.
func (x *SharedPredictions) Find(now time.Time, tokens int, fingerprints []uint32) int {
	var room [16]rankTokens
	return len(x.find(room[:0], now.UnixNano(), tokens, fingerprints))
}

// Keyed reports whether the last choice has cut its prompt into keys of the approximate tree.
func (s *Scratch) Keyed() bool { return s.approx.keyed }
