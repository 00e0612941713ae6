package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
)

var (
	// ErrUnknownModel is a model that no worker serves.
	ErrUnknownModel = errors.New("route: no worker serves this model")
	// ErrNoWorker is a model whose workers are all unfit or already tried, or
	// have no such rank.
	ErrNoWorker = errors.New("route: no worker is ready")
	// ErrAmbiguous is a request without a model where several are served.
	ErrAmbiguous = errors.New("route: several models are served; the request must name one")
)

// Router picks ranks for prompts.
type Router struct {
	// Approx knows what no events tell; without it such ranks and prompts are
	// routed by load. It is set before the first Pick.
	Approx *Approx

	registry *worker.Registry
	index    *radix.Index
	view     func() *ingest.View
	policy   policy.Policy
	seed     func() uint64 // safe for concurrent use
	turn     atomic.Uint64
	flights  flights
}

// New returns a router over these parts. seed gives the random numbers that
// policies use.
func New(reg *worker.Registry, index *radix.Index, view func() *ingest.View, p policy.Policy, seed func() uint64) *Router {
	return &Router{registry: reg, index: index, view: view, policy: p, seed: seed}
}

// Policy returns the policy that picks.
func (r *Router) Policy() policy.Policy { return r.policy }

// Prompt is what routing needs of a request's prompt.
type Prompt struct {
	Model    string // as the client named it; "" for any
	Tokens   []uint32
	Hashes   []radix.Hash // of leading blocks of Tokens, as far as they are known
	Block    int          // tokens that a block of Hashes has
	Exact    bool         // Tokens are what the engine will see
	Estimate int          // tokens, when they are not known exactly
	Text     []byte       // what the ids would be made of, when they are not known
	LoRA     string
	Salt     string
	ExtraKey string // no event names it: such prompts are known by their answers only
	// Opaque prompts (images, batches) are cached by more than their tokens: no
	// overlap is claimed for them.
	Opaque bool
	// DP restricts the choice to one data-parallel rank of each worker, as the
	// client asked; -1 is any.
	DP int
}

// Len returns the number of prompt tokens, estimated when they are not known.
func (p *Prompt) Len() int {
	if p.Exact {
		return len(p.Tokens)
	}
	return p.Estimate
}

// Decision is where a request goes and why.
type Decision struct {
	Rank         *worker.Rank
	Matched      int // leading blocks of the prompt that the rank will not compute again
	Total        int // whole blocks of the prompt
	PromptTokens int // exact or estimated
	Cached       int // prompt tokens expected from the cache
	Predicted    int // prompt tokens that prompts in flight there will have cached, or have
	Exact        bool
	Source       Source // of Matched and Cached; unless it is Events, they are estimates
	Choice       policy.Choice

	block int // tokens a block of what may be predicted; 0 is nothing
	scope radix.Scope
	sent  sent
}

// Uncached returns the prompt tokens that the rank is expected to compute.
func (d *Decision) Uncached() int { return d.PromptTokens - max(d.Cached, d.Predicted) }

// Scratch is the memory of one Pick, reused by the next.
type Scratch struct {
	ranks      []*worker.Rank
	candidates []policy.Candidate
	matches    []match // by candidate
	byHolder   []match // by index holder and by seat, zero between picks
	overlaps   []radix.Overlap
	blocks     []radix.Hash // of the prompt, as far as they are known: in chain, or the prompt's own
	chain      []radix.Hash
	pairs      []uint32
	bigrams    []radix.Hash
	answer     []radix.Hash
	foretold   bool // something is predicted of this prompt
	tracker
}

// keptHashes bounds the memory that a Scratch keeps of a prompt's hashes: 1 MiB, a million tokens in blocks of 8.
const keptHashes = 128 << 10

// Trim gives back what an unusually long prompt took, so that a pool of scratches does not keep it. Nobody may use a decision
// made with s any more.
func (s *Scratch) Trim() {
	s.blocks = nil // another name of chain, or not ours
	if cap(s.chain) > keptHashes {
		s.chain = nil
	}
	if cap(s.pairs) > 2*keptHashes {
		s.pairs, s.bigrams = nil, nil
	}
}

// match is a prefix that is held, in tokens.
type match struct {
	tokens int // in any tier
	gpu    int // on the GPU
	block  int // tokens a block of the shape that matched
}

// Pick chooses a rank for the prompt, never one of tried.
func (r *Router) Pick(s *Scratch, p *Prompt, tried []*worker.Rank) (Decision, error) {
	if err := r.gather(s, p, tried); err != nil {
		return Decision{}, err
	}
	var d Decision
	if p.Exact && !p.Opaque && p.ExtraKey == "" {
		now := time.Now()
		r.expire(now)
		r.match(s, p, &d)
		if s.doubtful(now) {
			r.distrust()
			clear(s.byHolder)
			r.match(s, p, &d)
		}
	}
	r.believe(s, p)
	s.weigh(p)
	choice := r.policy.Pick(policy.Request{
		Tokens: p.Len(), Exact: p.Exact, Turn: r.turn.Add(1) - 1, Seed: r.seed(),
	}, s.candidates)
	s.decide(&d, p, choice)
	return d, nil
}

// weigh makes the candidates of s.ranks.
func (s *Scratch) weigh(p *Prompt) {
	s.candidates = s.candidates[:0]
	s.matches = s.matches[:0]
	for i, rank := range s.ranks {
		m := s.held(rank)
		f := s.foreseen(rank)
		if f.gpu > m.tokens && len(rank.Holders()) <= 1 { // of a hybrid model, which groups kept it is unknown
			m = match{tokens: f.gpu, gpu: f.gpu, block: f.block}
		}
		// A rank without its history knows some of it by its events, and never too
		// much: the answers may know more.
		if n := s.believed[i]; n > m.tokens {
			m = match{tokens: n, gpu: n}
		}
		m, f = m.limited(p), f.limited(p)
		s.matches = append(s.matches, m)
		s.candidates = append(s.candidates, policy.Candidate{
			Cached: m.tokens, Predicted: f.tokens, Host: m.tokens - m.gpu, Pending: rank.Load.Pending(), InFlight: rank.Load.InFlight(),
		})
	}
	clear(s.byHolder)
}

// limited returns the whole blocks of m that the engine takes from its cache: it
// computes at least one token.
func (m match) limited(p *Prompt) match {
	limit := max(p.Len()-1, 0)
	if m.block > 0 {
		limit = limit / m.block * m.block
	}
	m.tokens, m.gpu = min(m.tokens, limit), min(m.gpu, limit)
	return m
}

// decide completes the decision.
func (s *Scratch) decide(d *Decision, p *Prompt, choice policy.Choice) {
	rank, m := s.ranks[choice.Index], s.matches[choice.Index]
	d.Rank, d.Choice = rank, choice
	d.PromptTokens, d.Cached, d.Exact, d.Source = p.Len(), m.tokens, p.Exact, s.sources[choice.Index]
	d.Predicted = s.candidates[choice.Index].Predicted
	block := m.block
	if block == 0 {
		block = pageSize(rank.Worker.Info())
	}
	if (p.Exact || d.Source == Answers) && block > 0 {
		d.Matched, d.Total = m.tokens/block, p.Len()/block
	}
}

func pageSize(info *worker.Info) int {
	if info.Events != nil && info.Events.BlockSize > 0 {
		return info.Events.BlockSize
	}
	return info.PageSize
}

// gather fills s.ranks with those that could take the request: the ready ones,
// or the slow ones when nobody is ready, since a slow answer beats none.
func (r *Router) gather(s *Scratch, p *Prompt, tried []*worker.Rank) error {
	snap, model := r.registry.Snapshot(), p.Model
	s.ranks = s.ranks[:0]
	served := false
	for _, state := range [...]worker.State{worker.Ready, worker.Slow} {
		for _, rank := range snap.Ranks {
			info := rank.Worker.Info()
			if info == nil || !Serves(info, model) {
				continue
			}
			served = true
			if !aggregated(info) || (p.DP >= 0 && p.DP != rank.DP) {
				continue
			}
			if rank.Worker.State() == state && !slices.Contains(tried, rank) {
				s.ranks = append(s.ranks, rank)
			}
		}
		if len(s.ranks) > 0 {
			return s.oneModel(model)
		}
	}
	if !served && len(snap.Ranks) > 0 && described(snap) {
		return fmt.Errorf("cannot route model %q: %w", model, ErrUnknownModel)
	}
	return fmt.Errorf("cannot route model %q: %w", model, ErrNoWorker)
}

// oneModel refuses to guess among models for a request that names none.
func (s *Scratch) oneModel(model string) error {
	if !wildcard(model) {
		return nil
	}
	first := s.ranks[0].Worker.Info().Model()
	for _, rank := range s.ranks[1:] {
		if rank.Worker.Info().Model() != first {
			return fmt.Errorf("cannot choose between %q and %q: %w", first, rank.Worker.Info().Model(), ErrAmbiguous)
		}
	}
	return nil
}

// described reports whether any worker has said what it serves; before that,
// no model can be called unknown.
func described(snap *worker.Snapshot) bool {
	return slices.ContainsFunc(snap.Workers, func(w *worker.Worker) bool { return w.Info() != nil })
}

// aggregated reports whether a worker does both prefill and decode. One leg of
// a pair answers a plain request with an error, or hangs.
func aggregated(info *worker.Info) bool { return info.Mode == "" || info.Mode == "null" }

// wildcard reports whether a request leaves the model open. "default" is what
// SGLang's own documentation has clients send.
func wildcard(model string) bool { return model == "" || model == "default" }

// Serves reports whether a worker with this description takes requests for
// model, which may name an adapter as "base:adapter".
func Serves(info *worker.Info, model string) bool {
	if wildcard(model) || len(info.Models) == 0 || slices.Contains(info.Models, model) {
		return true
	}
	base, _, ok := strings.Cut(model, ":")
	return ok && slices.Contains(info.Models, base)
}
