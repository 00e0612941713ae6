package tokens

import "sync/atomic"

// proof counts how often a model's own ids of one kind of prompt were found equal to those of a worker, and decides whether they are used.
//
// A kind begins unproved: its workers tokenize, and their ids are compared with its own. After enough equal ones in a row its own are used,
// and go on being compared: the number of prompt tokens of each answer that tells it, and all ids of a sample. One that differs,
// and it is unproved again, with a longer way to go.
type proof struct {
	proved atomic.Bool
	// equal is how many were in a row, and need how many it takes.
	equal, need atomic.Uint64

	matches, mismatches atomic.Uint64
}

const (
	// firstNeed is small: a wrong template or tokenizer shows in the first prompt, or in those of one kind only, which the sample finds.
	firstNeed = 3
	// laterNeed is for a model that was wrong once: a kind of prompt that is one in a hundred then shows before it is used again.
	laterNeed = 200
)

// outcome is what a comparison changed.
type outcome uint8

const (
	unchanged outcome = iota
	nowProved
	nowRefuted
)

// note counts a comparison.
func (p *proof) note(same bool) outcome {
	if !same {
		p.mismatches.Add(1)
		p.equal.Store(0)
		p.need.Store(laterNeed)
		if p.proved.CompareAndSwap(true, false) {
			return nowRefuted
		}
		return unchanged
	}
	p.matches.Add(1)
	if p.equal.Add(1) >= p.need.Load() && p.proved.CompareAndSwap(false, true) {
		return nowProved
	}
	return unchanged
}

// String names the kind, for logs.
func (k kind) String() string { return [kinds]string{"text", "chat", "chat with tools"}[k] }
