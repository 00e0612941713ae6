package request

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// ExplainedPair is the best pair of a prefill and a decode rank, and what the
// latter was chosen from.
type ExplainedPair struct {
	Prefill string            `json:"prefill"` // a rank's id; its costs are among Ranks
	Decode  string            `json:"decode"`
	Chosen  bool              `json:"chosen"`        // else one rank has the request alone
	Why     string            `json:"why,omitempty"` // of the decode rank, where it is chosen
	TTFT    float64           `json:"ttft"`          // predicted time to the pair's first token, in seconds
	Decodes []ExplainedDecode `json:"decodes"`
}

// ExplainedDecode is one decode rank's part in the choice.
type ExplainedDecode struct {
	ID     string              `json:"id"`
	State  string              `json:"state"`
	Held   int                 `json:"held"` // prompt tokens that need not be sent there
	Load   LoadStatus          `json:"load"`
	GPUs   *GPUHealthStatus    `json:"gpus"`
	Cost   ExplainedDecodeCost `json:"cost"`
	Broken bool                `json:"broken,omitempty"` // nothing can be moved there from the pair's prefill rank
	Winner bool                `json:"winner,omitempty"`
}

// ExplainedDecodeCost is in seconds, with the transfer from the pair's prefill
// rank.
type ExplainedDecodeCost struct {
	policy.DecodeCost
	Total float64 `json:"total"`
}

// explainedPair is nil where there are no pairs.
func explainedPair(x *routing.Explanation) *ExplainedPair {
	if x.First == nil {
		return nil
	}
	out := &ExplainedPair{Prefill: x.First.ID(), Decode: x.Second.ID(), TTFT: x.PairTTFT, Decodes: []ExplainedDecode{}}
	if x.Err == nil && x.Decision.Decode != nil {
		out.Chosen, out.Why = true, x.Decision.DecodeChoice.Reason
	}
	for i := range x.Decodes {
		d := &x.Decodes[i]
		out.Decodes = append(out.Decodes, ExplainedDecode{
			ID: d.Rank.ID(), State: d.Rank.Worker.State().String(), Held: d.Candidate.Cached, Load: loadStatus(d.Rank, &d.Load),
			GPUs: gpuHealth(d.Rank.Worker, time.Now()),
			Cost: ExplainedDecodeCost{DecodeCost: d.Cost, Total: d.Cost.Total()}, Broken: d.Broken, Winner: out.Chosen && d.Rank == x.Second,
		})
	}
	return out
}

// bootstrapOf is where decode workers meet a prefill worker; "" of others.
func bootstrapOf(w *worker.Worker) string {
	if b := w.Bootstrap(); b.Port != 0 {
		return b.Addr()
	}
	return ""
}
