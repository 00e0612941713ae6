package admin

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Explained is the body of POST /explain: the rank that a request would get, and why.
type Explained struct {
	Policy string `json:"policy"`
	// Seed is the seed of ties and samples; ?seed= repeats a choice. It is a string, for JavaScript
	// has no integers of 64 bits.
	Seed   string          `json:"seed"`
	Turn   uint64          `json:"turn"` // the request's number, for round robin
	Prompt ExplainedPrompt `json:"prompt"`
	Winner string          `json:"winner,omitempty"` // a rank's id
	Why    string          `json:"why,omitempty"`
	Error  string          `json:"error,omitempty"` // why no rank was chosen
	// Candidates first; decode ranks of pairs are in Pair.
	Ranks []ExplainedRank `json:"ranks"`
	// Where prefill and decode workers serve the model.
	Pair *ExplainedPair `json:"pair,omitempty"`
	// Overruled names the GPU facts that the choice had to ignore: they exclude every candidate.
	Overruled string `json:"overruled,omitempty"`
}

// ExplainedPrompt is the prompt as routing sees it.
type ExplainedPrompt struct {
	Model   string `json:"model,omitempty"`
	Tokens  int    `json:"tokens"` // an estimate unless exact
	Exact   bool   `json:"exact"`  // the token ids are known
	LoRA    string `json:"lora,omitempty"`
	Salted  bool   `json:"salted,omitempty"`
	Session bool   `json:"session,omitempty"` // it belongs to a session that has a rank
	// The prompt's place in its session; absent where nothing is known.
	Turn *ExplainedTurn `json:"turn,omitempty"`
}

// ExplainedTurn is the place of a prompt in its session.
type ExplainedTurn struct {
	// Keyed hashes, as in the access log; absent where the session or branch begins here.
	Session string `json:"session,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Kind    string `json:"kind"`   // first, next, again, rewritten or branch
	Source  string `json:"source"` // field or header that names the session, or prefix
	Turns   int    `json:"turns"`  // of the branch before this one
	// Leading tokens that other sessions or branches have too, in units of 32.
	Shared int `json:"shared"`
	// Usual seconds from an answer to the branch's next turn; absent where unknown.
	Pause float64 `json:"pause_seconds,omitempty"`
	// Rank with the branch's latest pages.
	Home string `json:"home,omitempty"`
	// Tokens there that no other session has, times the chance that the branch comes back.
	Own float64 `json:"own_tokens,omitempty"`
}

func explainedTurn(t *routing.ExplainedTurn) *ExplainedTurn {
	if t.Kind == 0 {
		return nil
	}
	out := &ExplainedTurn{
		Kind: t.Kind.String(), Source: t.Source.String(), Turns: t.Turns, Shared: t.Shared,
		Pause: t.Pause.Seconds(), Home: t.Home, Own: t.Own,
	}
	if t.Session != 0 {
		out.Session = strconv.FormatUint(t.Session, 16)
	}
	if t.Branch != 0 {
		out.Branch = strconv.FormatUint(t.Branch, 16)
	}
	return out
}

// ExplainedRank is one rank's part in the choice.
type ExplainedRank struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	State string `json:"state"`
	Error string `json:"error,omitempty"` // of its last probe
	// Why it was no candidate; then overlap and cost are absent.
	Excluded string            `json:"excluded,omitempty"`
	Events   string            `json:"events"` // state of its event stream
	Overlap  *ExplainedOverlap `json:"overlap,omitempty"`
	Load     LoadStatus        `json:"load"`
	// Tokens there that other sessions are expected to need again; with this prompt, more than the
	// pool displaces some of them.
	Live  float64          `json:"live_tokens,omitempty"`
	Trust TrustStatus      `json:"trust"`
	GPUs  *GPUHealthStatus `json:"gpus"`
	// Share of its speed in the cost, by GPUs and free memory.
	Weight float64        `json:"weight,omitempty"`
	Cost   *ExplainedCost `json:"cost,omitempty"`
	Winner bool           `json:"winner,omitempty"`
}

// ExplainedOverlap is the rank's overlap with the prompt, in tokens.
type ExplainedOverlap struct {
	GPU       int `json:"gpu"`
	Host      int `json:"host"`           // beyond GPU, in slower tiers
	Predicted int `json:"predicted"`      // with the prompts that it is computing
	Credited  int `json:"credited"`       // of GPU and Host, after overlap credit
	Tier      int `json:"tier,omitempty"` // beyond those, in the KV tier of its node
	// Beyond those, in the KV tier of a peer over a measured link.
	Remote int    `json:"remote,omitempty"`
	Source string `json:"source"` // exact, approximate or none
}

// ExplainedCost is in seconds, by the terms of the kv policy whichever policy chooses.
type ExplainedCost struct {
	policy.Cost
	TTFT  float64 `json:"ttft"`  // predicted time to the first token
	Total float64 `json:"total"` // with the cost to other requests: the value that kv compares
	// Score is the value that the policy compares, in its own unit, lower is better; absent where
	// it compares none.
	Score *float64 `json:"score,omitempty"`
}

// explainer answers POST /explain, GET /choices, /index and /what_if.
type explainer struct {
	responder
	router *routing.Router
	ingest *ingest.Manager
	models *tokens.Models
}

// serve explains the choice for a request with this body. It sends nothing to a worker.
func (e *explainer) serve(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		e.wrongMethod(ctx, fasthttp.MethodPost)
		return
	}
	seed := e.router.Seed()
	if given := ctx.QueryArgs().Peek("seed"); len(given) > 0 {
		n, err := strconv.ParseUint(string(given), 10, 64)
		if err != nil {
			e.fail(ctx, openai.BadRequest("seed", "seed must be a whole number below 2^64."))
			return
		}
		seed = n
	}
	var answer Explained
	err := e.requests.Explain(ctx, seed, func(x *routing.Explanation, p *routing.Prompt) {
		answer = e.explained(x, p)
	})
	if err != nil {
		e.fail(ctx, request.ErrorFor(err, ""))
		return
	}
	e.json(ctx, fasthttp.StatusOK, answer)
}

func (e *explainer) explained(x *routing.Explanation, p *routing.Prompt) Explained {
	out := explainedChoice(x)
	out.Policy = e.router.Policy().Name()
	out.Prompt = ExplainedPrompt{
		Model: p.Model, Tokens: p.Len(), Exact: p.Exact, LoRA: p.LoRA, Salted: p.Salt != "",
		Session: x.Request.SessionRank != 0, Turn: explainedTurn(&x.Turn),
	}
	now := time.Now()
	for i := range x.Ranks {
		out.Ranks = append(out.Ranks, e.rank(x, &x.Ranks[i], now))
	}
	if out.Pair != nil {
		for i := range x.Decodes {
			w, d := x.Decodes[i].Rank.Worker, &out.Pair.Decodes[i]
			d.State, d.GPUs = w.State().String(), gpuHealth(w, now)
		}
	}
	return out
}

// explainedChoice has all of an explanation but the prompt and the ranks.
func explainedChoice(x *routing.Explanation) Explained {
	out := Explained{
		Seed: strconv.FormatUint(x.Request.Seed, 10), Turn: x.Request.Turn,
		Ranks: []ExplainedRank{}, Pair: explainedPair(x),
	}
	if x.Err != nil {
		out.Error = x.Err.Error()
	} else {
		out.Winner, out.Why = x.Decision.Rank.ID(), x.Decision.Choice.Reason
		out.Overruled = overruledReason(&x.Decision)
	}
	return out
}

// rank has a rank's part in a choice of now, with the facts about its worker.
func (e *explainer) rank(x *routing.Explanation, c *routing.Considered, now time.Time) ExplainedRank {
	w, r := c.Rank.Worker, explainedRank(x, c)
	r.State, r.Error, r.Events, r.GPUs = w.State().String(), w.LastError(), "none", gpuHealth(w, now)
	if r.Trust = trustStatus(c.Rank, now); c.Excluded == "" {
		r.Trust.Credit = c.Credit
	}
	if stream := e.ingest.Stream(c.Rank); stream != nil {
		r.Events = stream.Stats.State().String()
	}
	return r
}

// explainedRank has a rank's part in a choice, as of then.
func explainedRank(x *routing.Explanation, c *routing.Considered) ExplainedRank {
	r := ExplainedRank{
		ID: c.Rank.ID(), Role: c.Role.String(), Excluded: c.Excluded, Load: loadStatus(c.Rank, &c.Load), Weight: c.Weight,
	}
	if c.Excluded != "" {
		return r
	}
	r.Trust.Credit = c.Credit
	r.Overlap = &ExplainedOverlap{
		GPU: c.GPU, Host: c.Cached - c.GPU, Predicted: c.Candidate.Predicted,
		Credited: c.Candidate.Cached, Source: c.Source.String(),
		Tier: int(c.Candidate.Tier), Remote: int(c.Candidate.Remote),
	}
	r.Cost = &ExplainedCost{Cost: c.Cost, TTFT: c.Cost.TTFT(), Total: c.Cost.Total()}
	if c.Scored {
		r.Cost.Score = &c.Score
	}
	r.Live = float64(c.Candidate.Live)
	r.Winner = x.Err == nil && c.Rank == x.Decision.Rank
	return r
}
