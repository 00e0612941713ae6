package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix/approx"
)

// Source is the origin of an overlap.
type Source uint8

const (
	// Unknown overlap: the prompt has parts that neither text nor ids name.
	Unknown Source = iota
	// Events of the rank itself: the overlap is exact.
	Events
	// Answers of the rank, and prompts sent to it: the overlap is approximate.
	Answers
)

// String returns the source as headers, metrics and /status show it.
func (s Source) String() string { return [...]string{"none", "exact", "approximate"}[s] }

// ApproxIndex is the approximate index of all ranks, for ranks without events and prompts
// without token ids.
//
// It learns of a rank from the first choice on that could use it: ranks with events that are
// followed, and that answers have met, cost no request anything. When the events of a rank fail,
// KnownSessions still knows its conversations; beginnings that only other prompts have may be
// computed elsewhere once.
type ApproxIndex struct{ tree *approx.Tree }

const (
	// unitTokens and unitBytes are about the same length of prompt: 32 tokens are 128 bytes of
	// English and 40 Chinese characters. No choice depends on less.
	unitTokens = 32
	unitBytes  = 128
	// capacityNum / capacityDen times the tokens of a rank's pool bound its units: a unit of
	// JSON or of long words is 21 tokens, not 32. Answers take back too much, and cannot add
	// too little.
	capacityNum, capacityDen = 3, 2
)

// NewApproxIndex returns an empty index that keeps at most maxBytes; 0 is 64 MiB.
func NewApproxIndex(maxBytes int64) *ApproxIndex {
	return &ApproxIndex{approx.New(approx.Config{MaxBytes: maxBytes, UnitBytes: unitBytes, UnitTokens: unitTokens})}
}

var _ worker.Observer = (*ApproxIndex)(nil)

// Up implements worker.Observer: each rank begins empty.
func (a *ApproxIndex) Up(w *worker.Worker, info *worker.Info) {
	for _, rank := range w.Ranks() {
		a.tree.AddWorker(approx.Worker(rank.Number()), info.MaxTokens/unitTokens*capacityNum/capacityDen)
	}
}

// Down implements worker.Observer: the blocks of the worker's ranks are gone.
func (a *ApproxIndex) Down(w *worker.Worker) {
	for _, rank := range w.Ranks() {
		a.tree.RemoveWorker(approx.Worker(rank.Number()))
	}
}

// Clear empties the ranks of a worker after its cache was flushed.
func (a *ApproxIndex) Clear(w *worker.Worker) {
	for _, rank := range w.Ranks() {
		a.ClearRank(rank)
	}
}

// ClearRank empties a rank after its process was replaced.
func (a *ApproxIndex) ClearRank(r *worker.Rank) { a.tree.Clear(approx.Worker(r.Number())) }

// Stats returns the tree's sizes and counters.
func (a *ApproxIndex) Stats() approx.Stats { return a.tree.Stats() }

// Held returns the prompt tokens that the index has of a rank.
func (a *ApproxIndex) Held(r *worker.Rank) int64 {
	return a.tree.Worker(approx.Worker(r.Number())).Units * unitTokens
}

// approxMatch is the overlap of each candidate by the approximate index.
type approxMatch struct {
	found   []approx.Overlap
	units   []int    // by number of the rank, zero between choices
	sources []Source // by candidate
	tokens  []int    // by candidate, where the source is Answers
}

// learnt is the state of a decision in the approximate index.
type learnt struct {
	since approx.Tick // of the insert; 0: there was none
	extra *worker.ExtraKeyPrompt
}

// source returns the origin of a prompt's overlap with a rank.
func (p *Prompt) source(rank *worker.Rank) Source {
	switch {
	case rank.Worker.Info().NoCache: // it holds no block, for certain
		return Events
	case p.Opaque || (!p.Exact && len(p.Text) == 0) || rank.Doubt() == worker.DoubtProcess:
		return Unknown
	case p.Exact && p.ExtraKey == "" && rank.Exact():
		return Events
	default:
		return Answers
	}
}

// learns reports whether the tree knows a rank by the prompts that are sent there: in place of its
// events, or beside them while they are new.
func learns(rank *worker.Rank, source Source) bool {
	isNew, _ := rank.Events.New()
	return source == Answers || source == Events && isNew && !rank.Worker.Info().NoCache
}

// prepare readies the tree for a prompt that goes to a rank.
func (a *ApproxIndex) prepare(s *Scratch, p *Prompt, rank *worker.Rank, source Source) {
	if a != nil && learns(rank, source) {
		a.key(s, p, rank)
	}
}

// reset makes m the match of ranks of which the index knows nothing.
func (m *approxMatch) reset(ranks int) {
	m.sources, m.tokens = slices.Grow(m.sources[:0], ranks)[:ranks], slices.Grow(m.tokens[:0], ranks)[:ranks]
	clear(m.sources)
	clear(m.tokens)
}

// match fills m with the source of each rank's overlap, and with the overlap itself where the
// approximate index is that source. only: it is for all ranks. a may be nil.
func (a *ApproxIndex) match(m *approxMatch, s *Scratch, p *Prompt, ranks []*worker.Rank, only bool) {
	m.reset(len(ranks))
	s.keys, s.keyed = s.keys[:0], false
	needed := false
	for i, rank := range ranks {
		source := p.source(rank)
		if source == Events && only {
			source = Answers
		}
		m.sources[i] = source
		_, answered := rank.Events.New()
		needed = needed || learns(rank, source) && (source == Answers || answered)
	}
	if a == nil || !needed {
		return
	}
	a.key(s, p, ranks[0])
	m.found = a.tree.Match(m.found[:0], s.keys)
	for _, o := range m.found {
		if need := int(o.Worker) + 1 - len(m.units); need > 0 {
			m.units = append(m.units, make([]int, need)...)
		}
		m.units[o.Worker] = o.Units
	}
	for i, rank := range ranks {
		if n := int(rank.Number()); n < len(m.units) && learns(rank, m.sources[i]) {
			m.tokens[i] = m.units[n] * unitTokens
		}
	}
	for _, o := range m.found {
		m.units[o.Worker] = 0
	}
}

// key cuts a prompt into the tree's keys.
func (a *ApproxIndex) key(s *Scratch, p *Prompt, rank *worker.Rank) {
	if s.keyed {
		return
	}
	s.keyed = true
	model := p.Model // an adapter may have a name of its own
	if Wildcard(model) {
		model = rank.Worker.Info().Model()
	}
	domain := a.tree.Domain(model, p.LoRA, p.Salt, p.ExtraKey)
	if p.Exact {
		s.keys = a.tree.AppendTokens(s.keys[:0], domain, p.Tokens)
	} else {
		s.keys = a.tree.AppendText(s.keys[:0], domain, p.Text)
	}
}

// insert adds a prompt on its way to the decision's rank.
func (a *ApproxIndex) insert(s *Scratch, d *Decision) {
	d.learnt.since = a.tree.Insert(approx.Worker(d.Rank.Number()), s.keys)
}

// withdraw takes back a prompt without an answer.
func (a *ApproxIndex) withdraw(s *Scratch, d *Decision) {
	if d.learnt.since != 0 {
		a.tree.Withdraw(approx.Worker(d.Rank.Number()), s.keys, d.learnt.since)
	}
}

// correct sets the length of a prompt by its answer: of prompt tokens, cached were in the
// rank's prefix cache; 0 prompt tokens are unreported.
func (a *ApproxIndex) correct(s *Scratch, p *Prompt, d *Decision, prompt, cached int) {
	if d.learnt.since == 0 || len(s.keys) == 0 {
		return
	}
	actual := approx.Unreported
	if prompt > 0 {
		actual = units(p, prompt, cached-d.FetchedOf(cached)) // without fetched tokens
	}
	a.tree.Correct(approx.Worker(d.Rank.Number()), s.keys, d.learnt.since, actual)
}

// units converts the engine's cached tokens into units of the prompt. Text counts as equally
// dense everywhere.
func units(p *Prompt, prompt, cached int) int {
	if p.Exact {
		return cached / unitTokens
	}
	return int(float64(len(p.Text)) * float64(min(cached, prompt)) / float64(prompt) / unitBytes)
}
