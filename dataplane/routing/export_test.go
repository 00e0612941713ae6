package routing

// AppendFingerprints appends the fingerprints of a prompt.
func AppendFingerprints(dst []uint32, model string, p *Prompt) []uint32 {
	return appendFingerprints(dst, model, p)
}

// CountFingerprints returns the number of fingerprints of a prompt.
func CountFingerprints(tokens int) int { return countFingerprints(tokens) }

// SharedTokens returns the tokens that a prompt shares with another one by their fingerprints.
func SharedTokens(tokens int, fingerprints, other []uint32) int {
	return sharedTokens(commonPrefix(fingerprints, other), len(fingerprints), tokens)
}

// SharedPredictions returns the number of predictions of other routers.
func (r *Router) SharedPredictions() int { return int(r.inFlight.shares.Load()) }

// Keyed reports whether the last choice has cut its prompt into keys of the approximate tree.
func (s *Scratch) Keyed() bool { return s.keyed }
