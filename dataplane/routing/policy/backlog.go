package policy

// Backlog follows the prompt tokens that a rank has yet to prefill, as one router sees it: the
// tokens that it sent, the prompts that began to answer, the rank's own reports, and the tokens
// that the rank must have computed meanwhile at its rate. Without the last a prompt of 100,000
// tokens counts wholly until its first token, 6 s later, and the rank looks fuller than it is.
//
// The zero value is a rank without work. Times are seconds on any clock. It is not safe for
// concurrent use. Its fields are exported for publishing it to other routers.
type Backlog struct {
	Own   float64 // uncached tokens of prompts sent that have no first token yet
	Since float64 // when the rank began with the first of them, as far as is known
	Told  float64 // reported by the rank, and sent to it since
	At    float64 // when it was reported
	Heard bool    // Told and At are known
}

// Sent counts a prompt with so many tokens to compute.
func (b *Backlog) Sent(now, tokens float64) {
	if b.Own <= 0 {
		b.Since = now
	}
	b.Own += tokens
	b.Told += tokens
}

// Begun takes back a prompt with a first token, or a failed one. tokens are those of Sent.
func (b *Backlog) Begun(now, tokens float64) {
	b.Own = max(b.Own-tokens, 0)
	b.Since = now
}

// Reported notes the rank's report at time at, of all prompts of all routers that wait there.
// sent are tokens that this router has sent since and that the report cannot count.
func (b *Backlog) Reported(at, tokens, sent float64) {
	b.Told, b.At, b.Heard = tokens+sent, at, true
}

// Tokens returns the prompt tokens that are left at time now on a rank that computes rate of
// them per second; a rate of 0 is unknown and takes off none.
func (b *Backlog) Tokens(now, rate float64) float64 {
	left := max(b.Own-rate*max(now-b.Since, 0), 0) // a clock that was set back adds nothing
	if b.Heard {
		left = max(left, b.Told-rate*max(now-b.At, 0))
	}
	return left
}
