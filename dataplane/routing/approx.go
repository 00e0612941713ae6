package routing

import (
	"slices"
	"sync"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix/approx"
)

// Source says what an overlap is known from.
type Source uint8

const (
	// Nothing is known: the prompt has parts that neither text nor ids tell.
	Nothing Source = iota
	// Events of the rank itself: the overlap is exact.
	Events
	// Answers of the rank, and what was sent to it: the overlap is approximate.
	Answers
)

// String names the source as headers, metrics and /status show it.
func (s Source) String() string { return [...]string{"none", "exact", "approximate"}[s] }

// Approx is the approximate tree of all ranks, for those without events and
// for prompts without token ids.
//
// It learns from every request, those to exact ranks too: when events die, the
// conversations of that rank are still known, where a tree that begins then
// would send each of them elsewhere once. That costs a request to an exact rank
// 2 µs for 4,000 tokens (BenchmarkLearn), of some 60 µs of CPU that proxying one
// takes; memory is bounded anyhow. The prompt is cut into keys at its dispatch,
// when its ids are in the processor's caches: after the answer that took four
// times as long. The rest is done then, out of its way.
type Approx struct {
	tree *approx.Tree

	mu    sync.Mutex
	lives uint64                       // begun; guarded by mu
	known map[*worker.Worker][]tracked // guarded by mu
}

// tracked is a rank that the tree knows.
type tracked struct {
	rank *worker.Rank
	id   approx.Worker
}

const (
	// unitTokens and unitBytes cut prompts so that one unit is about the same in
	// both: 32 tokens are 128 bytes of English and 40 Chinese characters. A
	// choice between workers does not hang on less than that.
	unitTokens = 32
	unitBytes  = 128
	// roomNum / roomDen times the pool's tokens is what a rank may be believed to
	// hold: a unit of JSON or of long words is 21 tokens, not 32. What is too
	// much is unlearnt from answers; what is too little could not be learnt.
	roomNum, roomDen = 3, 2
)

// NewApprox returns an empty tree that keeps at most maxBytes; 0 is 64 MiB.
func NewApprox(maxBytes int64) *Approx {
	return &Approx{
		tree:  approx.New(approx.Config{MaxBytes: maxBytes, UnitBytes: unitBytes, UnitTokens: unitTokens}),
		known: make(map[*worker.Worker][]tracked),
	}
}

var _ worker.Observer = (*Approx)(nil)

// Up implements worker.Observer: each rank begins with nothing.
func (a *Approx) Up(w *worker.Worker, info *worker.Info) {
	a.Down(w)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rank := range w.Ranks() {
		id := a.tree.AddWorker()
		a.tree.SetCapacity(id, info.MaxTokens/unitTokens*roomNum/roomDen)
		a.known[w] = append(a.known[w], tracked{rank, id})
		// Ids are used again; with the life beside it, a request that outlives its
		// rank's process changes nothing of the next one's.
		a.lives++
		rank.SetApproxID(a.lives<<32 | uint64(id))
	}
}

// Down implements worker.Observer: what the worker held is gone.
func (a *Approx) Down(w *worker.Worker) {
	a.mu.Lock()
	ranks := a.known[w]
	delete(a.known, w)
	a.mu.Unlock()
	for _, t := range ranks {
		t.rank.SetApproxID(0)
		a.tree.RemoveWorker(t.id)
	}
}

// Clear forgets what a worker holds, whose cache was emptied.
func (a *Approx) Clear(w *worker.Worker) {
	a.mu.Lock()
	ranks := a.known[w]
	a.mu.Unlock()
	for _, t := range ranks {
		a.tree.Clear(t.id)
	}
}

// ClearRank forgets what a rank holds, whose process is found to be another one.
func (a *Approx) ClearRank(r *worker.Rank) {
	if track := r.ApproxID(); track != 0 {
		a.tree.Clear(approx.Worker(uint32(track)))
	}
}

// Stats returns the tree's sizes and counters.
func (a *Approx) Stats() approx.Stats { return a.tree.Stats() }

// Held returns how many prompt tokens a rank is believed to hold.
func (a *Approx) Held(r *worker.Rank) int64 {
	track := r.ApproxID()
	if track == 0 {
		return 0
	}
	return a.tree.Worker(approx.Worker(uint32(track))).Units * unitTokens
}

// tracker is the part of a Scratch that belongs to the approximate tree.
type tracker struct {
	keys     []approx.Key
	found    []approx.Overlap
	byID     []int    // units by id in the tree, zero between picks
	sources  []Source // by candidate
	believed []int    // tokens by candidate, where the source is Answers
}

// sent is the part of a Decision that belongs to the approximate tree.
type sent struct {
	track uint64
	since approx.Tick
	keyed bool // the Scratch has the keys of a prompt whose overlap is exact
	extra *worker.ExtraKeyPrompt
}

// source says what the overlap of a prompt with a rank can be known from.
func (p *Prompt) source(rank *worker.Rank) Source {
	switch {
	case rank.Worker.Info().NoCache: // it has nothing, and that is certain
		return Events
	case p.Opaque || (!p.Exact && len(p.Text) == 0) || rank.Doubt() == worker.DoubtProcess:
		return Nothing
	case p.Exact && p.ExtraKey == "" && rank.Exact():
		return Events
	default:
		return Answers
	}
}

// key cuts the prompt into the tree's keys.
func (r *Router) key(s *Scratch, p *Prompt, rank *worker.Rank) {
	t := r.Approx.tree
	model := p.Model // an adapter may have a name of its own
	if wildcard(model) {
		model = rank.Worker.Info().Model()
	}
	domain := t.Domain(model, p.LoRA, p.Salt, p.ExtraKey)
	if p.Exact {
		s.keys = t.AppendTokens(s.keys[:0], domain, p.Tokens)
	} else {
		s.keys = t.AppendText(s.keys[:0], domain, p.Text)
	}
}

// believe fills s.sources, and s.believed where candidates need it.
func (r *Router) believe(s *Scratch, p *Prompt) {
	s.keys, s.sources = s.keys[:0], s.sources[:0]
	s.believed = append(s.believed[:0], make([]int, len(s.ranks))...)
	for _, rank := range s.ranks {
		source := p.source(rank)
		if source == Events && r.believesAnswers() {
			source = Answers
		}
		s.sources = append(s.sources, source)
	}
	if r.Approx == nil || !slices.Contains(s.sources, Answers) {
		return
	}
	r.key(s, p, s.ranks[0])
	s.found = r.Approx.tree.Match(s.found[:0], s.keys)
	for _, o := range s.found {
		if need := int(o.Worker) + 1 - len(s.byID); need > 0 {
			s.byID = append(s.byID, make([]int, need)...)
		}
		s.byID[o.Worker] = o.Units
	}
	for i, rank := range s.ranks {
		track := rank.ApproxID()
		if id := int(uint32(track)); track != 0 && id < len(s.byID) && s.sources[i] == Answers {
			s.believed[i] = s.byID[id] * unitTokens
		}
	}
	for _, o := range s.found {
		s.byID[o.Worker] = 0
	}
}

// believesAnswers reports whether the policy is one that was made for the
// approximate tree: then nothing else tells it what ranks hold.
func (r *Router) believesAnswers() bool {
	needs := r.chosen.Load().needs
	return needs.Has(policy.NeedsOverlap) && !needs.Has(policy.NeedsTokens)
}

// Sent tells that a decision is carried out, so that the next prompt that
// begins alike finds it. Answered or Failed must follow, with the same Scratch
// and no other Pick in between.
func (r *Router) Sent(s *Scratch, d *Decision) {
	if r.Sessions != nil && d.session != 0 {
		r.Sessions.remember(d.session, d.Rank.IDHash())
	}
	if r.Approx == nil || d.Source != Answers || len(s.keys) == 0 {
		return
	}
	if d.sent.track = d.Rank.ApproxID(); d.sent.track != 0 {
		d.sent.since = r.Approx.tree.Insert(approx.Worker(uint32(d.sent.track)), s.keys)
	}
}

// Failed tells that the rank did not begin to answer. After Answered it does
// nothing.
func (r *Router) Failed(s *Scratch, d *Decision) {
	d.Rank.ExtraKeys.End(d.sent.extra)
	if d.sent.since != 0 && d.sent.track == d.Rank.ApproxID() {
		r.Approx.tree.Withdraw(approx.Worker(uint32(d.sent.track)), s.keys, d.sent.since)
	}
	d.sent = sent{}
}

// Answered tells that the rank has prefilled the prompt, and of how many prompt
// tokens it had how many in its cache before; of 0 where it did not say.
func (r *Router) Answered(s *Scratch, p *Prompt, d *Decision, prompt, cached int) {
	if r.Approx == nil || d.Source == Nothing || d.Rank.Worker.Info().NoCache {
		return
	}
	if d.Source == Events { // not Sent: its own events are faster
		d.sent.track = d.Rank.ApproxID()
		if !d.sent.keyed {
			r.key(s, p, d.Rank)
		}
	}
	if track := d.sent.track; track != 0 && track == d.Rank.ApproxID() && len(s.keys) > 0 {
		actual := approx.Unreported
		if prompt > 0 {
			actual = units(p, prompt, cached-d.FetchedOf(cached)) // else the rank would look larger than it is
		}
		r.Approx.tree.Correct(approx.Worker(uint32(track)), s.keys, d.sent.since, actual)
	}
	d.sent = sent{extra: d.sent.extra}
}

// units turns a count of the engine's tokens into units of the prompt. Text is
// taken to have the same number of tokens everywhere.
func units(p *Prompt, prompt, cached int) int {
	if p.Exact {
		return cached / unitTokens
	}
	return int(float64(len(p.Text)) * float64(min(cached, prompt)) / float64(prompt) / unitBytes)
}

// NeedsTokens reports whether some rank of the model tells what it holds by
// token ids. Where none does, text is as good and costs no question.
func (r *Router) NeedsTokens(model string) bool {
	for _, shape := range r.view().Shapes {
		if shape.Model == model {
			return true
		}
	}
	return false
}
