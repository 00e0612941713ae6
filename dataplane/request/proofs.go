package request

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// proofs are the proofs of conversions: by the served name of a model, the API, and whether the
// prompt has more than messages. Names come from workers, so that clients cannot add any.
type proofs struct {
	log     *slog.Logger
	by      sync.Map // of *tokens.Proof by proofKey
	inlines sync.Map // of bool by model: see guess
}

type proofKey struct {
	model string
	api   openai.API
	plain bool
	guess guess
}

// guess is the place of system messages behind others in the chat of a model without a known
// template: SGLang joins them at the beginning or leaves them, as the template does. The number of
// prompt tokens tells which one is right.
type guess uint8

const (
	noGuess guess = iota // the prompt does not depend on it
	guessJoined
	guessInline
)

// guess returns the guess for a model.
func (p *proofs) guess(model string) guess {
	if inline, _ := p.inlines.Load(model); inline == true {
		return guessInline
	}
	return guessJoined
}

// wrong notes that a guess was wrong.
func (p *proofs) wrong(model string, g guess) {
	if g != noGuess {
		p.inlines.Store(model, g == guessJoined)
	}
}

// of returns the proof for a request.
func (p *proofs) of(model string, req *openai.Request, g guess) *tokens.Proof {
	key := proofKey{model, req.API, len(req.PromptFields()) == 0, g}
	found, ok := p.by.Load(key)
	if !ok {
		name := model + " " + req.API.String()
		if !key.plain {
			name += " with tools"
		}
		if g != noGuess {
			name += " with system messages"
		}
		found, _ = p.by.LoadOrStore(key, tokens.NewProof(name, p.log))
	}
	proof, _ := found.(*tokens.Proof)
	return proof
}

// ConversionStatus is the state of a proof.
type ConversionStatus struct {
	Name string `json:"name"` // of model, API and kind of prompt
	// Proved conversions give token ids; others are known by their text.
	Proved bool `json:"proved"`
	// Matches and Mismatches count answers with as many prompt tokens as were expected, and with
	// others.
	Matches    uint64 `json:"matches"`
	Mismatches uint64 `json:"mismatches"`
}

// status returns the proofs by name.
func (p *proofs) status() (all []ConversionStatus) {
	p.by.Range(func(_, found any) bool {
		if proof, ok := found.(*tokens.Proof); ok {
			s := ConversionStatus{Name: proof.Name(), Proved: proof.Proved()}
			s.Matches, s.Mismatches = proof.Counts()
			all = append(all, s)
		}
		return true
	})
	slices.SortFunc(all, func(a, b ConversionStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}
