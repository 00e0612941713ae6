package tokens

import "sync/atomic"

// verification compares the ids that a model makes here for one kind of prompt with those of a
// worker, and decides whether they are used.
//
// A kind begins unverified: the workers tokenize, and their ids are compared with the model's own.
// After enough equal prompts in a row its own ids are used, and comparisons continue: of the number
// of prompt tokens, where an answer reports it, and of all ids of a sample. One difference makes
// the kind unverified again, and more equal prompts are needed.
type verification struct {
	verified atomic.Bool
	// equalInARow counts equal prompts since the last difference; needed of them verify.
	equalInARow, needed atomic.Uint64

	matches, mismatches atomic.Uint64
}

const (
	// needAtFirst is small: a wrong template or tokenizer shows in the first prompt, or in those of
	// one kind only, which the sample finds.
	needAtFirst = 3
	// needAfterDifference is for a model that was wrong once: a fault in one of a hundred prompts
	// shows before its ids are used again.
	needAfterDifference = 200
)

// change is the effect of a comparison.
type change uint8

const (
	unchanged change = iota
	nowVerified
	nowDifferent
)

// compare counts a comparison.
func (p *verification) compare(same bool) change {
	if !same {
		p.mismatches.Add(1)
		p.equalInARow.Store(0)
		p.needed.Store(needAfterDifference)
		if p.verified.CompareAndSwap(true, false) {
			return nowDifferent
		}
		return unchanged
	}
	p.matches.Add(1)
	if p.equalInARow.Add(1) >= p.needed.Load() && p.verified.CompareAndSwap(false, true) {
		return nowVerified
	}
	return unchanged
}

// String names the kind, for logs.
func (k kind) String() string { return [kinds]string{"text", "chat", "chat with tools"}[k] }
