package admin

import (
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// ExplainedPair is the best pair of a prefill and a decode rank, with all candidates for the
// latter.
type ExplainedPair struct {
	Prefill string `json:"prefill"` // a rank's id; its costs are among Ranks
	Decode  string `json:"decode"`
	Chosen  bool   `json:"chosen"` // else one rank serves the request alone
	// Reason of the decode rank, where the pair is chosen.
	Why string `json:"why,omitempty"`
	// Predicted time to the pair's first token, in seconds.
	TTFT    float64           `json:"ttft"`
	Decodes []ExplainedDecode `json:"decodes"`
}

// ExplainedDecode is one decode rank's part in the choice.
type ExplainedDecode struct {
	ID    string              `json:"id"`
	State string              `json:"state"`
	Held  int                 `json:"held"` // prompt tokens that need no transfer
	Load  LoadStatus          `json:"load"`
	GPUs  *GPUHealthStatus    `json:"gpus"`
	Cost  ExplainedDecodeCost `json:"cost"`
	// No transfer from the pair's prefill rank works.
	Broken bool `json:"broken,omitempty"`
	Winner bool `json:"winner,omitempty"`
}

// ExplainedDecodeCost is in seconds, with the transfer from the pair's prefill rank.
type ExplainedDecodeCost struct {
	policy.DecodeCost
	Total float64 `json:"total"`
}

// explainedPair is nil where there are no pairs. State and GPUs of decode ranks are not filled in.
func explainedPair(x *routing.Explanation) *ExplainedPair {
	if x.First == nil {
		return nil
	}
	out := &ExplainedPair{
		Prefill: x.First.ID(), Decode: x.Second.ID(), TTFT: x.PairTTFT, Decodes: []ExplainedDecode{},
	}
	if x.Err == nil && x.Decision.Decode != nil {
		out.Chosen, out.Why = true, x.Decision.DecodeChoice.Reason
	}
	for i := range x.Decodes {
		d := &x.Decodes[i]
		out.Decodes = append(out.Decodes, ExplainedDecode{
			ID: d.Rank.ID(), Held: d.Candidate.Cached,
			Load:   loadStatus(d.Rank, &d.Load),
			Cost:   ExplainedDecodeCost{DecodeCost: d.Cost, Total: d.Cost.Total()},
			Broken: d.Broken, Winner: out.Chosen && d.Rank == x.Second,
		})
	}
	return out
}
