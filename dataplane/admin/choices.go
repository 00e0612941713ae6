package admin

import (
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// RecentChoices is the body of GET /choices.
type RecentChoices struct {
	// The newest first: all where they are few, a part where they are more than four a second.
	Choices []RecentChoice `json:"choices"`
}

// ExplainedChoice is the body of GET /choices?number=N. The explanation has the candidates alone,
// as they were at the choice, without their state, events and GPUs.
type ExplainedChoice struct {
	Choice    RecentChoice `json:"choice"`
	Explained Explained    `json:"explained"`
}

// RecentChoice is a choice for a request that was sent to a worker.
type RecentChoice struct {
	Number uint64 `json:"number"` // among the kept ones, from 1
	// Of the request among all: of two rows, the difference tells how many lie between them.
	Turn       uint64    `json:"turn"`
	At         time.Time `json:"at"`
	Request    string    `json:"request,omitempty"` // X-Request-ID
	Model      string    `json:"model"`
	Policy     string    `json:"policy"`
	Tokens     int       `json:"tokens"` // of the prompt; an estimate unless exact
	Exact      bool      `json:"exact"`
	Cached     int       `json:"cached"`     // of Tokens, expected in the worker's cache
	Candidates int       `json:"candidates"` // without decode ranks of pairs
	Worker     string    `json:"worker"`     // a rank's id
	Why        string    `json:"why"`
	Decode     string    `json:"decode,omitempty"` // a pair's decode rank
	DecodeWhy  string    `json:"decode_why,omitempty"`
	Again      bool      `json:"again,omitempty"` // after an attempt elsewhere had failed
	Overruled  string    `json:"overruled,omitempty"`
}

// serveRecent answers GET /choices: the list, or with ?number= one choice with its candidates.
func (e *explainer) serveRecent(ctx *fasthttp.RequestCtx) {
	given := ctx.QueryArgs().Peek("number")
	if len(given) == 0 {
		answer := RecentChoices{Choices: []RecentChoice{}}
		for _, c := range e.router.Recent() {
			answer.Choices = append(answer.Choices, recentChoice(&c))
		}
		e.json(ctx, fasthttp.StatusOK, answer)
		return
	}
	number, err := strconv.ParseUint(string(given), 10, 64)
	if err != nil {
		e.fail(ctx, openai.BadRequest("number", "number must be that of a choice in GET /choices."))
		return
	}
	c, found := e.router.ExplainRecent(number)
	if !found {
		e.fail(ctx, &openai.Error{
			Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Param: "number", Code: "choice_not_found",
			Message: fmt.Sprintf("Choice %d is not kept: later ones have taken its place. Choose one of GET /choices.", number),
		})
		return
	}
	e.json(ctx, fasthttp.StatusOK, ExplainedChoice{Choice: recentChoice(&c), Explained: e.explainedRecent(&c)})
}

func recentChoice(c *routing.RecentChoice) RecentChoice {
	d := &c.Decision
	out := RecentChoice{
		Number: c.Number, Turn: c.Request.Turn, At: c.At, Request: c.Name, Model: c.Model, Policy: c.Policy,
		Tokens: c.Request.Tokens, Exact: c.Request.Exact, Cached: max(d.Cached, d.Predicted), Candidates: c.Candidates,
		Worker: d.Rank.ID(), Why: d.Choice.Reason, Again: c.Again, Overruled: overruledReason(d),
	}
	if d.Decode != nil {
		out.Decode, out.DecodeWhy = d.Decode.ID(), d.DecodeChoice.Reason
	}
	return out
}

func (e *explainer) explainedRecent(c *routing.RecentChoice) Explained {
	out := explainedChoice(&c.Explanation)
	out.Policy, out.Prompt = c.Policy, ExplainedPrompt{Model: c.Model, Tokens: c.Request.Tokens, Exact: c.Request.Exact}
	for i := range c.Ranks {
		out.Ranks = append(out.Ranks, explainedRank(&c.Explanation, &c.Ranks[i]))
	}
	return out
}
