package routing

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Eligible are the ranks that may take a request, in memory that is used again.
type Eligible struct {
	groups  [3]group       // by role
	ranks   []*worker.Rank // regular ranks, then prefill ranks
	alone   int            // number of regular ranks
	decodes []*worker.Rank // that the prefill ranks may send to
	now     int64          // unix nanoseconds of the choice
	judged  bool           // facts about GPUs say something of a worker here
	faulty  faultCounts    // ranks with a GPU fault
}

// group is the ranks of one role with the best fitness.
type group struct {
	fitness fitness
	ranks   []*worker.Rank
}

func (g *group) add(rank *worker.Rank, f fitness) {
	if f < g.fitness {
		g.fitness, g.ranks = f, g.ranks[:0]
	}
	if f == g.fitness && f != unfit {
		g.ranks = append(g.ranks, rank)
	}
}

// Decodes returns, after Router.Eligible, the decode ranks for the prefill ranks of its result.
func (e *Eligible) Decodes() []*worker.Rank { return e.decodes }

// find fills e with the ranks for a prompt, without tried ones.
func (e *Eligible) find(snap *worker.Snapshot, p *Prompt, tried []*worker.Rank, now time.Time) error {
	e.now = now.UnixNano()
	served := e.group(snap, p, tried)
	e.unite()
	if len(e.ranks) > 0 {
		e.preferAdapter(p.LoRA)
		return e.oneModel(p)
	}
	if missing := e.missing(); missing != nil {
		return fmt.Errorf("cannot route model %q: %w: %w", p.Model, ErrNoWorker, missing)
	}
	if !served && len(snap.Ranks) > 0 && described(snap) {
		return fmt.Errorf("cannot route model %q: %w", p.Model, ErrUnknownModel)
	}
	return fmt.Errorf("cannot route model %q: %w", p.Model, ErrNoWorker)
}

// described reports whether any worker has told its models. Before that, no model is unknown.
func described(snap *worker.Snapshot) bool {
	return slices.ContainsFunc(snap.Workers, func(w *worker.Worker) bool { return w.Info() != nil })
}

// group sorts the ranks by role and fitness, and reports whether any worker serves the model.
// It is one pass without a map: with 1,024 ranks each further pass costs as much as the choice
// itself.
func (e *Eligible) group(snap *worker.Snapshot, p *Prompt, tried []*worker.Rank) (served bool) {
	for i := range e.groups {
		e.groups[i] = group{fitness: unfit, ranks: e.groups[i].ranks[:0]}
	}
	e.faulty, e.judged = faultCounts{}, false
	var last *worker.Worker // its ranks are neighbours
	var fit fitness
	var role worker.Role
	model := p.Model
	for _, rank := range snap.Ranks {
		if rank.Worker != last {
			last, fit = rank.Worker, unfit
			if p.Worker != nil && p.Worker != last {
				continue
			}
			if info := last.Info(); info != nil && Serves(info, model) {
				if !served {
					model = info.Named(model)
				}
				served = true
				role, fit = info.Role(), fitReady
				if !last.Fit() {
					fit = e.fitnessOf(last, info)
				}
				if fit != unfit && p.exceeds(info.MaxLen) {
					fit |= unfitShort
				}
			}
		}
		if fit == unfit || (p.Unpaired && role != worker.RoleRegular) || (p.DP >= 0 && p.DP != rank.DPRank) || (len(tried) > 0 && slices.Contains(tried, rank)) {
			continue
		}
		if fit&unfitGPU != 0 {
			e.faulty.add(fit)
		}
		e.groups[role].add(rank, fit)
	}
	return served
}

// unite fills e.ranks with regular ranks, then prefill ranks of pairs. Of the two it leaves
// out the one with the worse fitness.
func (e *Eligible) unite() {
	alone, prefill, decode := &e.groups[worker.RoleRegular], &e.groups[worker.RolePrefill], &e.groups[worker.RoleDecode]
	pair := max(prefill.fitness, decode.fitness)
	e.ranks, e.decodes, e.alone = e.ranks[:0], e.decodes[:0], 0
	if alone.fitness <= pair {
		e.ranks = append(e.ranks, alone.ranks...)
		e.alone = len(e.ranks)
	}
	if pair <= alone.fitness && pair != unfit {
		e.ranks = append(e.ranks, prefill.ranks...)
		e.decodes = append(e.decodes, decode.ranks...)
	}
}

// missing returns the error for a model with only one half of a pair.
func (e *Eligible) missing() error {
	prefill, decode := e.groups[worker.RolePrefill].fitness != unfit, e.groups[worker.RoleDecode].fitness != unfit
	switch {
	case prefill && !decode:
		return ErrNoDecode
	case decode && !prefill:
		return ErrNoPrefill
	}
	return nil
}

// preferAdapter keeps the ranks of workers with the adapter loaded, where some have it, for a
// pair one of each role: the others must load it first, or refuse the request.
func (e *Eligible) preferAdapter(name string) {
	if name == "" {
		return
	}
	alone, haveAlone := withAdapter(e.ranks[:e.alone], name)
	prefills, havePrefill := withAdapter(e.ranks[e.alone:], name)
	decodes, haveDecode := withAdapter(e.decodes, name)
	switch havePair := havePrefill && haveDecode; {
	case haveAlone && !havePair:
		prefills, decodes = nil, decodes[:0]
	case havePair && !haveAlone:
		alone = alone[:0]
	}
	e.alone, e.decodes = len(alone), decodes
	e.ranks = append(e.ranks[:e.alone], prefills...) // alone is their beginning
}

// withAdapter filters ranks in place, and reports whether any has the adapter.
func withAdapter(ranks []*worker.Rank, name string) (kept []*worker.Rank, have bool) {
	if !slices.ContainsFunc(ranks, func(r *worker.Rank) bool { return hasAdapter(r, name) }) {
		return ranks, false
	}
	return slices.DeleteFunc(ranks, func(r *worker.Rank) bool { return !hasAdapter(r, name) }), true
}

func hasAdapter(r *worker.Rank, name string) bool {
	return slices.Contains(r.Worker.Info().Models, name)
}

// oneModel refuses to guess among models for a request that names none.
func (e *Eligible) oneModel(p *Prompt) error {
	if p.AnyModel || !Wildcard(p.Model) {
		return nil
	}
	first := e.ranks[0].Worker.Info().Model()
	for _, rank := range e.ranks[1:] {
		if rank.Worker.Info().Model() != first {
			return fmt.Errorf("cannot choose between %q and %q: %w", first, rank.Worker.Info().Model(), ErrAmbiguous)
		}
	}
	return nil
}

// healthy reports whether the ranks answer their probes, their breakers are not open, and the
// prompt is not too long for them.
func (e *Eligible) healthy() bool {
	f := e.groups[worker.RoleRegular].fitness
	if e.alone == 0 {
		f = e.groups[worker.RolePrefill].fitness | e.groups[worker.RoleDecode].fitness
	}
	return f&(unfitSlow|unfitBreaker|unfitShort) == 0
}

// admit takes the trials of the decision's half-open breakers, and reports whether it got them.
// It runs after the choice: a choice among ten ranks would otherwise take the trials of all of
// them and use one. An open breaker was ignored for lack of other ranks.
func (e *Eligible) admit(d *Decision) bool {
	first, second := &d.Rank.Worker.Breaker, (*worker.Breaker)(nil)
	if d.Decode != nil {
		second = &d.Decode.Worker.Breaker
	}
	if first.Closed() && (second == nil || second.Closed()) {
		return true
	}
	now := time.Now().UnixNano()
	d.tried = now
	a, b := e.groups[d.Rank.Worker.Role()].fitness >= unfitBreaker, true
	if second != nil {
		b = e.groups[worker.RoleDecode].fitness >= unfitBreaker || second.Lets(now)
	}
	if !b || (!a && !first.Try(now)) {
		return false
	}
	if second == nil || e.groups[worker.RoleDecode].fitness >= unfitBreaker || second.Try(now) {
		return true
	}
	d.GiveBack(d.Rank)
	return false
}
