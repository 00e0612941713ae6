package routing

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Explanation is a choice with everything that it was made of.
type Explanation struct {
	Decision Decision       // of nobody where Err is not nil
	Err      error          // why nobody was picked
	Request  policy.Request // what the policy was asked
	Options  policy.Options // of the costs
	Ranks    []Considered   // all that there are but Decodes: candidates first, in the policy's order
	Decodes  []Decoder      // candidates for the other half of a pair, in the policy's order
	// First and Second are the best pair, which has the request unless a rank has it alone; nil where there are no pairs.
	First, Second *worker.Rank
	PairTTFT      float64 // predicted time to that pair's first token, in seconds
}

// Decoder is one decode rank in an Explanation.
type Decoder struct {
	Rank      *worker.Rank
	Candidate policy.Candidate
	Load      worker.LoadView
	Cost      policy.DecodeCost // with the transfer from First
	Broken    bool              // nothing can be moved there from First
}

// Considered is one rank in an Explanation.
type Considered struct {
	Rank      *worker.Rank
	Role      worker.Role
	Excluded  string // why it was no candidate; "" for one, and then the rest is set
	Candidate policy.Candidate
	Cached    int     // prompt tokens that it is known to hold, in any tier, before Credit
	GPU       int     // of Cached, on the GPU
	Source    Source  // of Cached
	Credit    float64 // share of Cached that is believed
	Load      worker.LoadView
	Weight    float64     // share of its speed that counted, by the facts about its GPUs
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
		s.ranks, s.candidates, s.decodes, s.alone = s.ranks[:0], s.candidates[:0], s.decodes[:0], 0
	}
	e.Options = policy.Defaults
	if kv, ok := policy.Unwrap(r.Policy()).(policy.KV); ok {
		e.Options = kv.Options
	}
	costs, scores := r.explainCosts(s, &e)
	for i, rank := range s.ranks {
		c := Considered{
			Rank: rank, Role: rank.Worker.Role(), Candidate: s.candidates[i], Cached: s.matches[i].tokens, GPU: s.matches[i].gpu,
			Source: s.sources[i], Credit: s.credits[i], Load: s.loads[i], Weight: cmp.Or(s.candidates[i].Weight, 1), Cost: costs[i],
		}
		if len(scores) > 0 {
			c.Score, c.Scored = scores[i], true
		}
		e.Ranks = append(e.Ranks, c)
	}
	s.explainPairs(&e)
	now := time.Now()
	for _, rank := range r.registry.Snapshot().Ranks {
		if !slices.Contains(s.ranks, rank) && !slices.Contains(s.decodes, rank) {
			e.Ranks = append(e.Ranks, Considered{Rank: rank, Role: rank.Worker.Role(), Excluded: excluded(rank, p, len(s.decodes) > 0, now), Load: rank.Load.View(now)})
		}
	}
	return e
}

// Seed draws what Pick would draw.
func (r *Router) Seed() uint64 { return r.seed() }

// excluded says why a rank is no candidate; paired is whether pairs are.
func excluded(rank *worker.Rank, p *Prompt, paired bool, now time.Time) string {
	info, state := rank.Worker.Info(), rank.Worker.State()
	facts := ""
	if info != nil {
		facts = againstIt(rank.Worker, info, now)
	}
	switch {
	case info == nil:
		return "has not described itself yet"
	case !Serves(info, p.Model):
		return "serves another model"
	case p.DP >= 0 && p.DP != rank.DPRank:
		return "is not the data-parallel rank asked for"
	case state == worker.Ready && facts != "":
		return facts + ", and others are fit"
	case state == worker.Ready && !rank.Worker.Breaker.Lets(now.UnixNano()):
		return "failed too often, and others did not"
	case state == worker.Slow:
		return "answers its probes slowly, and others do not"
	case state != worker.Ready:
		return "is " + state.String()
	case info.Role() == worker.RolePrefill && !paired:
		return "is a prefill worker, and no decode worker is fit"
	case info.Role() == worker.RoleDecode && !paired:
		return "is a decode worker, and no prefill worker is fit"
	case p.LoRA != "":
		return "has not loaded the adapter, and others have"
	default:
		return "became ready just now"
	}
}

// againstIt says in words what the facts about its GPUs hold against a worker, "" for nothing that would leave it out.
func againstIt(w *worker.Worker, info *worker.Info, now time.Time) string {
	t := tierOfFacts(w.Verdict(now.UnixNano()), info)
	if t == 0 {
		return ""
	}
	words := [...]string{"", "computes on several GPUs, which it should not", "has GPUs that must be drained", "has dead GPUs"}[t.against()]
	if why := w.HealthAt(now).Reasons; len(why) > 0 {
		words += " (" + why[0] + ")"
	}
	return words
}
