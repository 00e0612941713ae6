package routing

import "time"

// AppendMarks, MarksOf and Common are the fingerprints of prompts.
func AppendMarks(dst []uint32, model string, p *Prompt) []uint32 { return appendMarks(dst, model, p) }

// MarksOf is how many marks a prompt has.
func MarksOf(tokens int) int { return marksOf(tokens) }

// Common is how many tokens two prompts are known to share.
func Common(tokens int, marks []uint32, others int, other []uint32) int {
	return common(tokens, marks, others, other)
}

// MarkAt is the place of a mark.
func MarkAt(i int) int { return markAt[i] }

// Len is how many prompts are expected.
func (x *Expected) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.all)
}

// Find returns how many ranks are about to compute something of a prompt.
func (x *Expected) Find(now time.Time, tokens int, marks []uint32) int {
	var room [16]rankTokens
	return len(x.find(room[:0], now.UnixNano(), tokens, marks, true))
}
