package tokens

import "sync/atomic"

// verification counts how often a model's own ids of one kind of prompt were found equal to those
// of a worker, and decides whether they are used.
//
// A kind begins unproved: its workers tokenize, and their ids are compared with its own. After
// enough equal ones in a row its own are used, and go on being compared: the number of prompt
// tokens of each answer that tells it, and all ids of a sample. One that differs, and it is
// unproved again, with a longer way to go.
type verification struct {
	verified atomic.Bool
	// equalInARow is how many were in a row, and need how many it takes.
	equalInARow, needed atomic.Uint64

	matches, mismatches atomic.Uint64
}

const (
	// needAtFirst is small: a wrong template or tokenizer shows in the first prompt, or in those of
	// one kind only, which the sample finds.
	needAtFirst = 3
	// needAfterDifference is for a model that was wrong once: a kind of prompt that is one in a
	// hundred then shows before it is used again.
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
