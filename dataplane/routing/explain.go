package routing

import (
	"cmp"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Explanation is a choice with all its facts.
type Explanation struct {
	Decision Decision       // without a rank where Err is not nil
	Err      error          // why no rank was picked
	Request  policy.Request // of the policy
	Options  policy.Options // of the costs
	Ranks    []Considered   // all ranks but Decodes: candidates first, in the policy's order
	Decodes  []Decoder      // candidates for the decode half of a pair, in the policy's order
	// First and Second are the best pair, which has the request unless a rank has it alone; nil
	// where there are no pairs.
	First, Second *worker.Rank
	PairTTFT      float64 // predicted time to that pair's first token, in seconds
	Turn          ExplainedTurn
}

// Decoder is one decode rank in an Explanation.
type Decoder struct {
	Rank      *worker.Rank
	Candidate policy.Candidate
	Load      worker.LoadView
	Cost      policy.DecodeCost // with the transfer from First
	Broken    bool              // the link from First moves no data
}

// Considered is one rank in an Explanation.
type Considered struct {
	Rank      *worker.Rank
	Role      worker.Role
	Excluded  string // why it was no candidate; "" for a candidate, which has the fields below
	Candidate policy.Candidate
	Cached    int     // prompt tokens that it holds, in any tier of the engine, before Credit
	GPU       int     // of Cached, on the GPU
	Source    Source  // of Cached
	Credit    float64 // trusted share of Cached
	Load      worker.LoadView
	Weight    float64     // share of its speed, by the facts about its GPUs
	Cost      policy.Cost // in seconds, by the kv policy's terms, for every policy
	Score     float64     // in the policy's own unit, lower is better
	Scored    bool        // the policy has scores
}

// explainCandidates adds the candidates of a choice.
func explainCandidates(e *Explanation, f *facts, p policy.Policy) {
	costs, scores := explainCosts(e, f, p)
	for i, rank := range f.ranks {
		c := Considered{
			Rank: rank, Role: rank.Worker.Role(), Candidate: f.candidates[i], Cached: f.overlaps[i].tokens, GPU: f.overlaps[i].gpu,
			Source: f.approx.sources[i], Credit: f.credits[i], Load: f.loads[i], Weight: cmp.Or(f.candidates[i].Weight, 1), Cost: costs[i],
		}
		if len(scores) > 0 {
			c.Score, c.Scored = scores[i], true
		}
		e.Ranks = append(e.Ranks, c)
	}
}

// explainCosts returns the costs of f.ranks, and the scores of a policy that has some.
func explainCosts(e *Explanation, f *facts, p policy.Policy) (costs []policy.Cost, scores []float64) {
	kv := policy.KV{Options: e.Options}
	single, l := f.candidates[:f.alone], f.pairCandidates()
	costs = kv.Costs(nil, e.Request, single)
	scores = policy.Scores(nil, p, e.Request, single)
	if len(f.decodes) == 0 {
		return costs, scores
	}
	costs = policy.PrefillCosts(costs, kv, e.Request, l.Prefill)
	if p, ok := policy.Unwrap(p).(policy.KV); ok {
		return costs, policy.PrefillScores(scores, p, e.Request, &l)
	}
	return costs, policy.Scores(scores, p, e.Request, l.Prefill)
}

// explainPairs adds the facts of a choice with pairs.
func explainPairs(e *Explanation, f *facts) {
	if len(f.decodes) == 0 {
		return
	}
	kv, l := policy.KV{Options: e.Options}, f.pairCandidates()
	e.First, e.Second = f.ranks[f.alone+f.pair.first], f.decodes[f.pair.second]
	e.PairTTFT = policy.PairTTFT(kv, e.Request, f.candidates[:f.alone], &l, f.pair.first, f.pair.second)
	for j, cost := range policy.DecodeCosts(nil, e.Request, &l, f.pair.first) {
		e.Decodes = append(e.Decodes, Decoder{
			Rank: f.decodes[j], Candidate: f.pair.decodes[j], Load: f.pair.loads[j], Cost: cost, Broken: l.Broken(f.pair.first, j),
		})
	}
}

// excluded returns why a rank is no candidate; paired: pairs are candidates.
func excluded(rank *worker.Rank, p *Prompt, paired bool, now time.Time) string {
	info, state := rank.Worker.Info(), rank.Worker.State()
	facts := ""
	if info != nil {
		facts = faultWords(rank.Worker, info, now)
	}
	switch {
	case info == nil:
		return "has not described itself yet"
	case !Serves(info, p.Model):
		return "serves another model"
	case p.Worker != nil && p.Worker != rank.Worker:
		return "does not store the response that the request continues"
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

// faultWords describes the GPU fault of a worker, "" for none that excludes it.
func faultWords(w *worker.Worker, info *worker.Info, now time.Time) string {
	v := w.Verdict(now.UnixNano())
	if v == nil {
		return ""
	}
	f := gpuFitness(v, info)
	if f == fitReady {
		return ""
	}
	words := [...]string{"", "computes on several GPUs, which it should not", "has GPUs that must be drained", "has dead GPUs"}[f.fault()]
	if why := w.Health(now).Reasons; len(why) > 0 {
		words += " (" + why[0] + ")"
	}
	return words
}
