package request

import (
	"log/slog"
	"sync"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// proofs are the proofs of conversions: by the served name of a model, the API, and whether the
// prompt has more than messages. Names come from workers, so that clients cannot add any.
type proofs struct {
	log *slog.Logger
	by  sync.Map // of *tokens.Proof by proofKey
}

type proofKey struct {
	model string
	api   openai.API
	plain bool
}

// of returns the proof for a request.
func (p *proofs) of(model string, req *openai.Request) *tokens.Proof {
	key := proofKey{model, req.API, len(req.PromptFields()) == 0}
	found, ok := p.by.Load(key)
	if !ok {
		name := model + " " + req.API.String()
		if !key.plain {
			name += " with tools"
		}
		found, _ = p.by.LoadOrStore(key, tokens.NewProof(name, p.log))
	}
	proof, _ := found.(*tokens.Proof)
	return proof
}
