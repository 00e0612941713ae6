package request

import (
	"strconv"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// headerRank names a data-parallel rank to SGLang's OpenAI routes, where it wins over the body.
const headerRank = "X-Data-Parallel-Rank"

// askedRank is the data-parallel rank that the client asks for.
type askedRank struct {
	inBody bool // the worker reads it there
}

// read has the header count as the body does, at every route. A rank that no worker has is refused,
// and so are two: SGLang would take the header, and versions differ about the body.
func (a *askedRank) read(x *exchange) error {
	req, param := &x.req, "routed_dp_rank"
	a.inBody = req.HasRank
	for _, value := range x.call.ctx.Request.Header.PeekAll(headerRank) {
		rank, err := strconv.Atoi(string(value))
		if err != nil {
			return openai.NoSuchRank(headerRank, string(value), x.choice.ranksOf(req.Model, x.prompt.turn.holder))
		}
		if req.HasRank && rank != req.Rank {
			return errRanks(param, req.Rank, rank)
		}
		req.Rank, req.HasRank, param = rank, true, headerRank
	}
	if !req.HasRank {
		return nil
	}
	ranks := x.choice.ranksOf(req.Model, x.prompt.turn.holder)
	if req.Rank < 0 || ranks > 0 && req.Rank >= ranks {
		return openai.NoSuchRank(param, strconv.Itoa(req.Rank), ranks)
	}
	return nil
}

// errRanks refuses a header that asks for another rank than the field before, of the body or the
// header.
func errRanks(param string, before, rank int) error {
	other := "the body"
	if param == headerRank {
		other = "another one"
	}
	return openai.BadRequest(headerRank, "The header asks for the rank "+strconv.Itoa(rank)+" and "+other+" for "+strconv.Itoa(before)+": ask for one rank.")
}

// ranksOf returns the number of ranks that a request to the model can ask for: those of an
// aggregated worker, or those that both halves of pairs have. It is 0 while no worker has described
// itself. holder is the only worker in question, nil: all are.
func (c *choice) ranksOf(model string, holder *worker.Worker) int {
	var most [3]int // by role
	for _, w := range c.registry.Snapshot().Workers {
		if info := w.Info(); info != nil && routing.Serves(info, model) && (holder == nil || w == holder) {
			most[info.Role()] = max(most[info.Role()], info.DPSize)
		}
	}
	prefill, decode := most[worker.RolePrefill], most[worker.RoleDecode]
	if prefill > 0 && decode > 0 {
		prefill = min(prefill, decode)
	}
	return max(most[worker.RoleAggregated], prefill, decode)
}

// nameOf names a rank to the client, or its worker alone: the engine chooses the ranks of requests
// that generate nothing, such as embeddings.
func (x *exchange) nameOf(rank *worker.Rank) string {
	if !x.inference {
		return rank.Worker.URL
	}
	return rank.ID()
}
