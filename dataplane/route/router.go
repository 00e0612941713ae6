package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

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
	// Sessions, if set, remembers which rank has a session, for policy.Sticky.
	// It is set before the first Pick.
	Sessions *Sessions

	registry *worker.Registry
	index    *radix.Index
	view     func() *ingest.View
	policy   policy.Policy
	needs    policy.Needs
	seed     func() uint64 // safe for concurrent use
	turn     atomic.Uint64
	flights  flights
}

// New returns a router over these parts. seed gives the random numbers that
// policies use.
func New(reg *worker.Registry, index *radix.Index, view func() *ingest.View, p policy.Policy, seed func() uint64) *Router {
	return &Router{registry: reg, index: index, view: view, policy: p, needs: p.Needs(), seed: seed}
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
	// Session names the client's session, by SessionKey; 0 is none.
	Session uint64
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

	block   int // tokens a block of what may be predicted; 0 is nothing
	scope   radix.Scope
	sent    sent
	session uint64
}

// Uncached returns the prompt tokens that the rank is expected to compute.
func (d *Decision) Uncached() int { return d.PromptTokens - max(d.Cached, d.Predicted) }

// Scratch is the memory of one Pick, reused by the next.
type Scratch struct {
	ranks      []*worker.Rank
	candidates []policy.Candidate
	matches    []match       // by candidate
	credits    []float64     // by candidate: the share of a match that is believed
	loads      []worker.Seen // by candidate
	byHolder   []match       // by index holder and by seat, zero between picks
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
			s.preferAdapter(p.LoRA)
			return s.oneModel(model)
		}
	}
	if !served && len(snap.Ranks) > 0 && described(snap) {
		return fmt.Errorf("cannot route model %q: %w", model, ErrUnknownModel)
	}
	return fmt.Errorf("cannot route model %q: %w", model, ErrNoWorker)
}

// preferAdapter keeps the ranks whose worker has the adapter loaded, where some
// have: others must load it first, or refuse the request.
func (s *Scratch) preferAdapter(name string) {
	if name == "" || !slices.ContainsFunc(s.ranks, func(r *worker.Rank) bool { return hasAdapter(r, name) }) {
		return
	}
	s.ranks = slices.DeleteFunc(s.ranks, func(r *worker.Rank) bool { return !hasAdapter(r, name) })
}

func hasAdapter(r *worker.Rank, name string) bool {
	return slices.Contains(r.Worker.Info().Models, name)
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
