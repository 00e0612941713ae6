package routing

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// A rank's load, health and trust are some twenty cache lines, so that looking at a thousand ranks takes 0.2 ms. Of a large fleet most
// choices therefore look at few: the ranks with the least load when all were last looked at, and those that hold something of the prompt.
// What no other rank holds is cheapest at the least loaded ones, so this is the choice among all, by what was known of the others a moment
// ago (TestFewAreAsGoodAsAll). Only plain kv is chosen by it, which alone has one cost for all ranks.
const (
	manyRanks = 256 // fewer are looked at always: at 100 all are read in 10 µs
	fewRanks  = 32  // with the least load
	// fewHolders are looked at of those that hold something, the longest first: what more of them hold, most of the least loaded hold too.
	fewHolders = 64
	// fewFor and fewUses bound how old the order is: in 10 ms a rank computes 100 tokens, and each use adds a request to one of fewRanks.
	fewFor  = 10 * time.Millisecond
	fewUses = 24
)

// few is the order of a large fleet by load. It is not changed once it is kept, but for left.
type few struct {
	*owners
	chosen *chosen
	model  string
	at     int64 // unix nanoseconds
	exact  bool  // all ranks tell by events what they hold
	ranks  []*worker.Rank
	fleet  policy.Fleet
	left   atomic.Int64 // uses

	placed []*worker.Rank // all that are on a node of the cluster, by place; nil: no tier has anything
	places []int32        // by place, where its ranks begin in placed; one more for the end
}

// owners finds ranks by the names that others have for them.
type owners struct {
	snap     *worker.Snapshot
	byHolder map[uint32]*worker.Rank // ids of holders and seats in the index
	byHash   map[uint64]*worker.Rank
}

// fewer is the part of a Scratch that belongs to large fleets.
type fewer struct {
	order []float64
	sizes []int
}

// fewOf returns the order that a request may be chosen by; nil: all must be looked at.
func (r *Router) fewOf(p *Prompt, now time.Time) (*few, policy.KV) {
	l := r.few.Load()
	if l == nil || p.DP >= 0 || p.LoRA != "" || p.Unpaired {
		return nil, policy.KV{}
	}
	if age := now.UnixNano() - l.at; age < 0 || age > int64(fewFor) || l.model != p.Model || l.snap != r.registry.Snapshot() || l.chosen != r.chosen.Load() {
		return nil, policy.KV{}
	}
	kv, ok := l.chosen.policy.(policy.KV)
	if !ok || l.left.Add(-1) < 0 {
		return nil, policy.KV{}
	}
	return l, kv
}

// keepFew keeps the order of what was just looked at.
func (r *Router) keepFew(s *Scratch, p *Prompt, seed uint64, now time.Time) {
	n, now1 := len(s.ranks), r.chosen.Load()
	kv, ok := now1.policy.(policy.KV)
	if !ok || !kv.Plain() || len(s.decodes) > 0 || s.groups[worker.RoleAggregated].tier != tierReady {
		return
	}
	l := &few{chosen: now1, model: p.Model, at: now.UnixNano(), exact: true, fleet: policy.SurveyFleet(s.candidates)}
	snap := r.registry.Snapshot()
	if old := r.few.Load(); old != nil && old.snap == snap && !r.strange.Swap(false) {
		l.owners = old.owners
	} else {
		l.owners = newOwners(snap)
	}
	l.left.Store(fewUses)
	s.order = kv.Loads(s.order[:0], &l.fleet, s.candidates)
	// From anywhere on: of many that are idle not always the same ones.
	at, best := int(seed%uint64(n)), make([]int, 0, fewRanks+1)
	for range n {
		if at++; at >= n {
			at = 0
		}
		l.exact = l.exact && s.ranks[at].Exact()
		if len(best) == fewRanks && s.order[at] >= s.order[best[fewRanks-1]] {
			continue
		}
		place, _ := slices.BinarySearchFunc(best, s.order[at], func(i int, load float64) int { return cmp.Compare(s.order[i], load) })
		if best = slices.Insert(best, place, at); len(best) > fewRanks {
			best = best[:fewRanks]
		}
	}
	l.ranks = make([]*worker.Rank, len(best))
	for i, at := range best {
		l.ranks[i] = s.ranks[at]
	}
	if r.tiered.Swap(false) {
		l.place(s.ranks)
	}
	r.few.Store(l)
}

// place notes who is on which node, which is to be known where tiers hold something.
func (l *few) place(ranks []*worker.Rank) {
	at, most := make([]uint32, len(ranks)), uint32(0)
	for i, rank := range ranks {
		at[i] = rank.Worker.NodeNumber()
		most = max(most, at[i])
	}
	l.places = make([]int32, most+2)
	for _, p := range at {
		l.places[p+1]++
	}
	for p := range most + 1 {
		l.places[p+1] += l.places[p]
	}
	l.placed = make([]*worker.Rank, len(ranks))
	next := slices.Clone(l.places)
	for i, p := range at {
		l.placed[next[p]] = ranks[i]
		next[p]++
	}
}

// addShelved adds the ranks of nodes whose tiers have something of the prompt, the longest first; false: they are not known. A rank without
// anything that could take it from another node is as good as the others of its load, so these need no look.
func (s *Scratch) addShelved(l *few) bool {
	added := 0
	for i := len(s.shelves) - 1; i >= 0 && s.shelves[i].Tokens > 0 && added < fewHolders; i-- {
		if l.placed == nil {
			return false
		}
		shelf := &s.shelves[i]
		if !shelf.Open || int(shelf.Place)+1 >= len(l.places) {
			continue
		}
		for _, rank := range l.placed[l.places[shelf.Place]:l.places[shelf.Place+1]] {
			s.addFew(rank)
			added++
		}
	}
	return true
}

func newOwners(snap *worker.Snapshot) *owners {
	o := &owners{snap: snap, byHolder: make(map[uint32]*worker.Rank, 2*len(snap.Ranks)), byHash: make(map[uint64]*worker.Rank, len(snap.Ranks))}
	for _, rank := range snap.Ranks {
		o.byHash[rank.IDHash()] = rank
		for _, id := range rank.IndexIDs() {
			o.byHolder[id] = rank
		}
		if seat := rank.PredictionID(); seat > 0 {
			o.byHolder[seat-1] = rank
		}
	}
	return o
}

// owner returns the rank that an id of the index stands for; false: it is not known.
func (o *owners) owner(id uint32) (*worker.Rank, bool) {
	rank := o.byHolder[id]
	return rank, rank != nil && (rank.PredictionID() == id+1 || slices.Contains(rank.IndexIDs(), id))
}

// startFew makes s.ranks those with the least load that are fit; false: hardly any is.
func (s *Scratch) startFew(l *few, now time.Time) bool {
	s.nanos = now.UnixNano()
	for i := range s.groups {
		s.groups[i] = group{tier: tierNone, ranks: s.groups[i].ranks[:0]}
	}
	s.groups[worker.RoleAggregated].tier = tierReady
	s.passed, s.judged = passed{}, false
	s.ranks, s.decodes = s.ranks[:0], s.decodes[:0]
	for _, rank := range l.ranks {
		s.addFew(rank)
	}
	return len(s.ranks) > fewRanks/2
}

// addFew adds a rank that is fit and is not there yet.
func (s *Scratch) addFew(rank *worker.Rank) {
	if info := rank.Worker.Info(); info != nil && (rank.Worker.Fit() || s.tierOf(rank.Worker, info) == tierReady) && !slices.Contains(s.ranks, rank) {
		s.ranks = append(s.ranks, rank)
		s.alone = len(s.ranks)
	}
}

// least returns from which size on fewHolders of s.sizes are.
func (s *Scratch) least() int {
	if len(s.sizes) <= fewHolders {
		return 1
	}
	slices.Sort(s.sizes)
	return s.sizes[len(s.sizes)-fewHolders]
}

// chooseAny is choose, among few ranks where that is enough.
func (r *Router) chooseAny(s *Scratch, p *Prompt, tried []*worker.Rank, by draw) (Decision, policy.Request, error) {
	if r.few.Load() != nil && len(tried) == 0 {
		if d, req, ok := r.chooseFew(s, p, by, time.Now()); ok {
			return d, req, nil
		}
	}
	return r.choose(s, p, tried, by)
}

// chooseFew is choose among few of many ranks; false: nothing is decided.
func (r *Router) chooseFew(s *Scratch, p *Prompt, by draw, now time.Time) (d Decision, req policy.Request, ok bool) {
	if !p.Exact || p.Opaque || p.ExtraKey != "" {
		return d, req, false
	}
	l, kv := r.fewOf(p, now)
	if l == nil || !l.exact || len(r.view().Shapes) != 1 || r.view().Shapes[0].Bigram || !s.startFew(l, now) {
		return d, req, false
	}
	if r.look(s, p); !s.addShelved(l) {
		return d, req, false
	}
	d.session = p.Session
	s.expects = s.expects[:0]
	r.expire(now)
	r.match(s, p, &d)
	r.expect(s, p, &d)
	s.addExpected(l)
	s.sizes = s.sizes[:0]
	for _, o := range s.overlaps {
		s.sizes = append(s.sizes, int(o.Blocks))
	}
	least, added := s.least(), 0
	for _, o := range s.overlaps {
		if int(o.Blocks) < least || added == 2*fewHolders {
			continue
		}
		rank, known := l.owner(uint32(o.Worker))
		if !known {
			r.strange.Store(true)
			clear(s.byHolder)
			return d, req, false
		}
		s.addFew(rank)
		added++
	}
	if s.doubtful(now) {
		clear(s.byHolder)
		return d, req, false
	}
	r.believe(s, p)
	if slices.ContainsFunc(s.sources, func(source Source) bool { return source != Events }) {
		clear(s.byHolder)
		return d, req, false
	}
	r.weigh(s, p, now)
	req = policy.Request{Tokens: p.Len(), Exact: true, Turn: by.turn, Seed: by.seed, Stored: len(s.shelves) > 0}
	s.decide(&d, p, kv.PickAmong(req, &l.fleet, s.candidates))
	return d, req, true
}

// arbitrateFew is chooseFew for another router's request.
func (r *Router) arbitrateFew(s *Scratch, a *Ask, p *Prompt, now time.Time) (d Decision, ok bool) {
	l, kv := r.fewOf(p, now)
	if l == nil || !s.startFew(l, now) {
		return d, false
	}
	s.sizes = s.sizes[:0]
	for i := range a.Held {
		s.sizes = append(s.sizes, a.Held[i].size())
	}
	least, added := s.least(), 0
	for i := range a.Held {
		if rank := l.byHash[a.Held[i].Rank]; rank != nil && a.Held[i].size() >= least && added < 2*fewHolders {
			s.addFew(rank)
			added++
		}
	}
	s.addExpected(l)
	r.weighAsked(s, a, p, now)
	req := policy.Request{Tokens: a.Tokens, Exact: a.Exact, Seed: r.seed()}
	s.decide(&d, p, kv.PickAmong(req, &l.fleet, s.candidates))
	return d, true
}

// size is how much of a prompt a rank has or will have.
func (h *Held) size() int { return max(h.Cached, h.Predicted) }
