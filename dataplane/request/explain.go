package request

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Explained is the body of POST /explain: where a request would go, and why.
type Explained struct {
	Policy string          `json:"policy"`
	Seed   string          `json:"seed"` // of ties and samples; ?seed= repeats a choice. A string, for 64 bits are too many for JavaScript
	Turn   uint64          `json:"turn"` // the number of the request, for taking turns
	Prompt ExplainedPrompt `json:"prompt"`
	Winner string          `json:"winner,omitempty"` // a rank's id
	Why    string          `json:"why,omitempty"`
	Error  string          `json:"error,omitempty"` // why nobody was chosen
	Ranks  []ExplainedRank `json:"ranks"`           // candidates first; those that decode for others are in Pair
	Pair   *ExplainedPair  `json:"pair,omitempty"`  // where prefill and decode workers serve the model
	// Chief is the ID of the router that chooses for all of a cluster, where that is another one: it knows better what the others have
	// in flight. What stands here is this router's own choice, which it makes where the chief does not answer in time.
	Chief string `json:"chief,omitempty"`
	// Overruled says which facts about GPUs could not be heeded, for they would have left nobody.
	Overruled string `json:"overruled,omitempty"`
}

// ExplainedPrompt is what routing knows of the prompt.
type ExplainedPrompt struct {
	Model   string `json:"model,omitempty"`
	Tokens  int    `json:"tokens"` // an estimate unless exact
	Exact   bool   `json:"exact"`  // the token ids are known
	LoRA    string `json:"lora,omitempty"`
	Salted  bool   `json:"salted,omitempty"`
	Session bool   `json:"session,omitempty"` // it belongs to a session that has a rank
}

// ExplainedRank is one rank's part in the choice.
type ExplainedRank struct {
	ID       string            `json:"id"`
	Role     string            `json:"role"`
	State    string            `json:"state"`
	Error    string            `json:"error,omitempty"`    // of its last probe
	Excluded string            `json:"excluded,omitempty"` // why it was no candidate; then neither overlap nor cost is known
	Events   string            `json:"events"`             // state of its event stream
	Overlap  *ExplainedOverlap `json:"overlap,omitempty"`
	Load     LoadStatus        `json:"load"`
	Trust    TrustStatus       `json:"trust"`
	GPUs     *GPUHealthStatus  `json:"gpus"`
	Weight   float64           `json:"weight,omitempty"` // share of its speed that the choice counted with, by GPUs and free memory
	Cost     *ExplainedCost    `json:"cost,omitempty"`
	Winner   bool              `json:"winner,omitempty"`
}

// ExplainedOverlap is what the rank has of the prompt, in tokens.
type ExplainedOverlap struct {
	GPU       int    `json:"gpu"`
	Host      int    `json:"host"`             // beyond, in slower tiers
	Predicted int    `json:"predicted"`        // or will have, with the prompts that it is working on
	Credited  int    `json:"credited"`         // of GPU and Host, what the choice believes
	Tier      int    `json:"tier,omitempty"`   // behind those, in the KV tier of its node
	Remote    int    `json:"remote,omitempty"` // and behind those in the tier of a peer, over a link that was measured
	Source    string `json:"source"`           // exact, approximate or none
}

// ExplainedCost is in seconds, by the kv policy's terms whatever the policy is.
type ExplainedCost struct {
	policy.Cost
	TTFT  float64 `json:"ttft"`  // predicted time to the first token
	Total float64 `json:"total"` // and what the choice costs others: what kv compares
	// Score is what the policy compares, in its own unit, lower is better; absent where it compares no numbers.
	Score *float64 `json:"score,omitempty"`
}

// serveExplain answers where a request with this body would go. It sends
// nothing there.
func (s *Server) serveExplain(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		s.wrongMethod(ctx, fasthttp.MethodPost)
		return
	}
	seed := s.Router.Seed()
	if given := ctx.QueryArgs().Peek("seed"); len(given) > 0 {
		n, err := strconv.ParseUint(string(given), 10, 64)
		if err != nil {
			s.fail(ctx, openai.BadRequest("seed", "seed must be a whole number below 2^64."))
			return
		}
		seed = n
	}
	e := s.exchange()
	e.api, e.started = bodyAPI(ctx.PostBody()), time.Now()
	s.inFlight.Add(1) // release takes it back
	if err := e.req.Parse(e.api, ctx.PostBody()); err != nil {
		e.refuse(call{ctx: ctx}, err)
		return
	}
	e.inferred = true
	e.describe(call{ctx: ctx})
	x := s.Router.Explain(&e.scratch, &e.prompt, seed)
	answer := s.explained(&x, &e.prompt)
	if others := s.replicaStatus(); others != nil && others.Leader != others.ID {
		answer.Chief = others.Leader
	}
	e.release()
	s.serveJSON(ctx, fasthttp.StatusOK, answer)
}

// bodyAPI says which API a body is for.
func bodyAPI(body []byte) openai.API {
	switch {
	case fastjson.Exists(body, "messages"):
		return openai.APIChat
	case fastjson.Exists(body, "prompt"):
		return openai.APICompletions
	default:
		return openai.APIGenerate
	}
}

func (s *Server) explained(x *routing.Explanation, p *routing.Prompt) Explained {
	out := Explained{
		Policy: s.Router.Policy().Name(), Seed: strconv.FormatUint(x.Request.Seed, 10), Turn: x.Request.Turn,
		Prompt: ExplainedPrompt{
			Model: p.Model, Tokens: p.Len(), Exact: p.Exact, LoRA: p.LoRA, Salted: p.Salt != "", Session: x.Request.SessionRank != 0,
		},
		Ranks: []ExplainedRank{}, Pair: explainedPair(x),
	}
	if x.Err != nil {
		out.Error = x.Err.Error()
	} else {
		out.Winner, out.Why = x.Decision.Rank.ID(), x.Decision.Choice.Reason
		out.Overruled = overruledWords(&x.Decision)
	}
	now := time.Now()
	for i := range x.Ranks {
		out.Ranks = append(out.Ranks, s.explainedRank(x, &x.Ranks[i], now))
	}
	return out
}

func (s *Server) explainedRank(x *routing.Explanation, c *routing.Considered, now time.Time) ExplainedRank {
	w := c.Rank.Worker
	r := ExplainedRank{
		ID: c.Rank.ID(), Role: c.Role.String(), State: w.State().String(), Error: w.LastError(), Excluded: c.Excluded, Events: "none",
		Load: loadStatus(c.Rank, &c.Load), Trust: trustStatus(c.Rank, now), GPUs: gpuHealth(w, now), Weight: c.Weight,
	}
	if stream := s.Ingest.Stream(c.Rank); stream != nil {
		r.Events = stream.Stats.State().String()
	}
	if c.Excluded != "" {
		return r
	}
	r.Trust.Credit = c.Credit
	r.Overlap = &ExplainedOverlap{
		GPU: c.GPU, Host: c.Cached - c.GPU, Predicted: c.Candidate.Predicted, Credited: c.Candidate.Cached, Source: c.Source.String(),
		Tier: int(c.Candidate.Tier), Remote: int(c.Candidate.Remote),
	}
	r.Cost = &ExplainedCost{Cost: c.Cost, TTFT: c.Cost.TTFT(), Total: c.Cost.Total()}
	if c.Scored {
		r.Cost.Score = &c.Score
	}
	r.Winner = x.Err == nil && c.Rank == x.Decision.Rank
	return r
}
