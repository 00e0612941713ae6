package admin

import (
	"github.com/valyala/fasthttp"
)

// WhatIf is the body of GET /what_if: how other policies would have made the choices of GET
// /choices. Each choice is judged alone, with the caches and loads as they were when it was made: a
// policy that had made all of them would have filled the caches in another way.
type WhatIf struct {
	Choices int   `json:"choices"` // that are compared
	Tokens  int64 `json:"tokens"`  // of their prompts
	// Choices of policies that do without overlap: the blocks of ranks then are not known.
	LeftOut  int            `json:"left_out"`
	Policies []WhatIfPolicy `json:"policies"` // the one in force first
}

// WhatIfPolicy is one policy of WhatIf.
type WhatIfPolicy struct {
	Policy string `json:"policy"`
	Made   bool   `json:"made,omitempty"` // the choices as they were made
	Same   int    `json:"same"`           // choices that are as they were made
	Cached int64  `json:"cached"`         // of Tokens, expected in the chosen rank's cache
	Left   int64  `json:"left"`           // of Tokens, those that are left to compute
	Ahead  int64  `json:"ahead"`          // others' prompt tokens before them at their ranks
	Ranks  int    `json:"ranks"`          // that were chosen
	Most   int    `json:"most"`           // choices of the rank with the most
}

// serveWhatIf answers GET /what_if.
func (e *explainer) serveWhatIf(ctx *fasthttp.RequestCtx) {
	all, of, tokens, without := e.router.WhatIf()
	answer := WhatIf{Choices: of, Tokens: tokens, LeftOut: without}
	for _, w := range all {
		one := WhatIfPolicy{Policy: w.Policy, Made: w.Policy == "", Same: w.Same, Cached: w.Cached, Left: w.Left, Ahead: w.Ahead, Ranks: w.Ranks, Most: w.Most}
		if one.Made {
			one.Policy = e.router.Policy().Name()
		}
		answer.Policies = append(answer.Policies, one)
	}
	e.json(ctx, fasthttp.StatusOK, answer)
}
