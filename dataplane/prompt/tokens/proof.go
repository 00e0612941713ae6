package tokens

import "log/slog"

// Proof compares the number of tokens of prompts that were converted from another API's bodies with
// the number that the answers report, and decides whether their ids are used. It follows the rules
// of verification. The ids of the converted chats are compared as those of any chat.
type Proof struct {
	v    verification
	name string
	log  *slog.Logger
}

// NewProof returns a proof without comparisons; name stands in logs.
func NewProof(name string, log *slog.Logger) *Proof {
	p := &Proof{name: name, log: log}
	p.v.needed.Store(needAtFirst)
	return p
}

// Name returns the name of the proof.
func (p *Proof) Name() string { return p.name }

// Proved reports whether enough prompts in a row had as many tokens as the worker counted.
func (p *Proof) Proved() bool { return p.v.verified.Load() }

// Compare notes a prompt's number of tokens as it was made here, and as an answer reports it.
func (p *Proof) Compare(own, theirs int) {
	switch p.v.compare(own == theirs) {
	case nowVerified:
		p.log.Info("prompts of this API are read by their tokens from now on", "api", p.name)
	case nowDifferent:
		p.log.Warn("prompts of this API have other tokens than the worker counts; they are read by their text until they are equal again",
			"api", p.name, "tokens", own, "worker_tokens", theirs)
	case unchanged:
	}
}

// Counts returns the numbers of equal and of different comparisons.
func (p *Proof) Counts() (matches, mismatches uint64) {
	return p.v.matches.Load(), p.v.mismatches.Load()
}
