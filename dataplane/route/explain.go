package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/worker"
)

// Explanation is a choice with everything that it was made of.
type Explanation struct {
	Decision Decision       // of nobody where Err is not nil
	Err      error          // why nobody was picked
	Request  policy.Request // what the policy was asked
	Options  policy.Options // of the costs
	Ranks    []Considered   // all that there are: candidates first, in the policy's order
}

// Considered is one rank in an Explanation.
type Considered struct {
	Rank      *worker.Rank
	Excluded  string // why it was no candidate; "" for one, and then the rest is set
	Candidate policy.Candidate
	Cached    int     // prompt tokens that it is known to hold, in any tier, before Credit
	GPU       int     // of Cached, on the GPU
	Source    Source  // of Cached
	Credit    float64 // share of Cached that is believed
	Load      worker.Seen
	Cost      policy.Cost // in seconds, by the kv policy's terms, whatever the policy is
	Score     float64     // in the policy's own unit, lower is better
	Scored    bool        // the policy has scores
}

// Explain says what Pick would decide, and changes nothing: the turn is the one
// that the next request has. seed is what Pick would draw; with the same state
// and seed both decide the same.
func (r *Router) Explain(s *Scratch, p *Prompt, seed uint64) Explanation {
	var e Explanation
	e.Decision, e.Request, e.Err = r.choose(s, p, nil, draw{turn: r.turn.Load(), seed: seed})
	if e.Err != nil {
		s.ranks, s.candidates = s.ranks[:0], s.candidates[:0]
	}
	e.Options = policy.Defaults
	if kv, ok := policy.Unwrap(r.policy).(policy.KV); ok {
		e.Options = kv.Options
	}
	costs := policy.KV{Options: e.Options}.Costs(nil, e.Request, s.candidates)
	scores := policy.Scores(nil, r.policy, e.Request, s.candidates)
	for i, rank := range s.ranks {
		c := Considered{
			Rank: rank, Candidate: s.candidates[i], Cached: s.matches[i].tokens, GPU: s.matches[i].gpu,
			Source: s.sources[i], Credit: s.credits[i], Load: s.loads[i], Cost: costs[i],
		}
		if len(scores) > 0 {
			c.Score, c.Scored = scores[i], true
		}
		e.Ranks = append(e.Ranks, c)
	}
	now := time.Now()
	for _, rank := range r.registry.Snapshot().Ranks {
		if !slices.Contains(s.ranks, rank) {
			e.Ranks = append(e.Ranks, Considered{Rank: rank, Excluded: excluded(rank, p), Load: rank.Load.See(now)})
		}
	}
	return e
}

// Seed draws what Pick would draw.
func (r *Router) Seed() uint64 { return r.seed() }

// excluded says why a rank is no candidate.
func excluded(rank *worker.Rank, p *Prompt) string {
	info, state := rank.Worker.Info(), rank.Worker.State()
	switch {
	case info == nil:
		return "has not described itself yet"
	case !Serves(info, p.Model):
		return "serves another model"
	case !aggregated(info):
		return "is a " + info.Mode + " worker"
	case p.DP >= 0 && p.DP != rank.DP:
		return "is not the data-parallel rank asked for"
	case state == worker.Slow:
		return "answers its probes slowly, and others do not"
	case state != worker.Ready:
		return "is " + state.String()
	case p.LoRA != "":
		return "has not loaded the adapter, and others have"
	default:
		return "became ready just now"
	}
}
