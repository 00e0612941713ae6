package routing

import (
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// facts are all that a choice compares. They are memory of the router's and one choice's at a time,
// since they grow with the ranks, 0.4 KiB for each, and a request lasts longer than its choice.
type facts struct {
	Eligible
	index  indexMatch
	approx approxMatch
	tiers  tierMatches
	pair   pairFacts

	candidates []policy.Candidate
	overlaps   []overlap         // by candidate
	told       []int             // by candidate: tokens by its events alone, counted or not
	credits    []float64         // by candidate: share of an overlap that is trusted
	loads      []worker.LoadView // by candidate
}

// takeFacts returns memory for a choice, to be given back behind it.
func (r *Router) takeFacts() *facts {
	if f, ok := r.facts.Get().(*facts); ok {
		return f
	}
	return new(facts)
}

func (r *Router) giveBack(f *facts) {
	if cap(f.index.pairs) > 2*keptHashes {
		f.index.pairs, f.index.bigrams = nil, nil
	}
	r.facts.Put(f)
}

// overlap is a leading part of a prompt that a rank holds, in tokens.
type overlap struct {
	tokens int // in any tier of the engine
	gpu    int // on the GPU
	block  int // tokens in a block of the index
}

// usable returns the whole blocks of o that the engine takes from its cache: it computes at
// least one token, and the tokens that the request needs computed.
func (o overlap) usable(p *Prompt) overlap {
	limit := max(p.Len()-1, 0)
	if p.Computed {
		limit = min(limit, p.ComputedFrom)
	}
	if max(o.tokens, o.gpu) <= limit {
		return o
	}
	if o.block > 0 {
		limit = limit / o.block * o.block
	}
	o.tokens, o.gpu = min(o.tokens, limit), min(o.gpu, limit)
	return o
}

// trusted returns the share of tokens that credit allows.
func trusted(tokens int, credit float64) int {
	if credit == 1 {
		return tokens
	}
	return int(float64(tokens) * credit)
}

// overlap returns the overlap of a rank, and the one that requests in flight there will have; told
// are the tokens that its events alone tell of.
func (f *facts) overlap(i int, p *Prompt) (held, predicted overlap, told int) {
	rank := f.ranks[i]
	if rank.Worker.Info().NoCache {
		return overlap{}, overlap{}, 0
	}
	o, predicted := f.index.of(rank), f.index.predictedOf(rank)
	told = o.usable(p).tokens
	if !rank.Events.Credited() {
		o = overlap{}
	}
	// Those of the groups of a hybrid model are unknown.
	if predicted.gpu > o.tokens && len(rank.IndexIDs()) <= 1 {
		o = overlap{tokens: predicted.gpu, gpu: predicted.gpu, block: predicted.block}
	}
	// The events of a rank without history tell of a part of its blocks; the answers may know
	// more.
	if n := f.approx.tokens[i]; n > o.tokens {
		o = overlap{tokens: n, gpu: n}
		f.approx.sources[i] = Answers
	}
	return o.usable(p), predicted.usable(p), told
}

// credit returns the share of a rank's overlap that is trusted.
func (f *facts) credit(i int) float64 {
	return f.ranks[i].Trust.CreditAt(f.now, f.approx.sources[i] == Events)
}

// silence returns the seconds since the last load report or event of a rank; 0 where it sends
// none.
func silence(rank *worker.Rank, load *worker.LoadView, now int64) float64 {
	events := rank.Trust.SilenceAt(now)
	switch {
	case load.Age < 0:
		return max(events, 0)
	case events < 0:
		return load.Age
	}
	return min(load.Age, events)
}

// decide makes a choice the decision.
func (f *facts) decide(d *Decision, p *Prompt, choice policy.Choice) {
	rank, o := f.ranks[choice.Index], f.overlaps[choice.Index]
	d.Rank, d.Choice = rank, choice
	d.PromptTokens, d.Cached, d.Exact, d.Source = p.Len()+p.Rest, o.tokens, p.Exact, f.approx.sources[choice.Index]
	d.Predicted = f.candidates[choice.Index].Predicted
	d.told, d.matched, d.ahead = f.told[choice.Index], f.index.matched, f.candidates[choice.Index].Pending
	d.removed = rank.Events.Removed()
	block := o.block
	if block == 0 {
		block = pageSize(rank.Worker.Info())
	}
	if (p.Exact || d.Source == Answers) && block > 0 {
		d.Matched, d.Total = o.tokens/block, p.Len()/block
	}
}
