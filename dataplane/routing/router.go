package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing/family"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

var (
	// ErrUnknownModel is a model that no worker serves.
	ErrUnknownModel = errors.New("route: no worker serves this model")
	// ErrNoWorker is a model whose workers are all unfit or already tried, or
	// have no such rank.
	ErrNoWorker = errors.New("route: no worker is ready")
	// ErrNoPrefill comes with ErrNoWorker where half of each pair is missing.
	ErrNoPrefill = errors.New("route: decode workers are ready, but no prefill worker is")
	// ErrNoDecode is the other half.
	ErrNoDecode = errors.New("route: prefill workers are ready, but no decode worker is")
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
	// MinUncached is how many tokens a prompt must lack in an aggregated rank's cache to be worth a pair, where a model is
	// served by both; 0 is DefaultMinUncached, below 0 length never decides. It is set before the first Pick.
	MinUncached int
	// Others, if set, choose for this router where they should. It is set before the first Pick.
	Others Others
	// Expected are prompts of all routers that no event tells of yet.
	Expected Expected
	// Passed counts what the facts about GPUs have done to choices.
	Passed Passed
	// Stores, if set, knows what the KV tiers of nodes hold. It is set before the first Pick.
	Stores Stores
	// Hints, if set, is told what the nodes of chosen ranks should pull from peers. It is set before the first Pick.
	Hints Hints

	registry *worker.Registry
	index    *radix.Index
	view     func() *ingest.View
	chosen   atomic.Pointer[chosen]
	seed     func() uint64 // safe for concurrent use
	turn     atomic.Uint64
	flights  flights
	few      atomic.Pointer[few] // the order of a large fleet; nil: not known
	strange  atomic.Bool         // an id of the index that few has no rank for
	tiered   atomic.Bool         // a tier has held something of a prompt since few was kept
	families family.Names
	links    atomic.Pointer[policy.Links]
}

// New returns a router over these parts. seed gives the random numbers that
// policies use.
func New(reg *worker.Registry, index *radix.Index, view func() *ingest.View, p policy.Policy, seed func() uint64) *Router {
	r := &Router{registry: reg, index: index, view: view, seed: seed}
	r.SetPolicy(p)
	return r
}

// chosen is a policy and what it told of itself.
type chosen struct {
	policy policy.Policy
	needs  policy.Needs
}

// Policy returns the policy that picks.
func (r *Router) Policy() policy.Policy { return r.chosen.Load().policy }

// SetPolicy has another policy pick from the next prompt on. One that is just being picked for may be gathered for the old one and
// picked by the new: then it is chosen for without what only the new one looks at.
func (r *Router) SetPolicy(p policy.Policy) { r.chosen.Store(&chosen{p, p.Needs()}) }

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
	// Computed says that an engine computes the prompt from token ComputedFrom on, whatever its cache holds.
	Computed     bool
	ComputedFrom int
	// DP restricts the choice to one data-parallel rank of each worker, as the
	// client asked; -1 is any.
	DP int
	// Session names the client's session, by SessionKey; 0 is none.
	Session uint64
	// Output is how many tokens the client asks for at most, in all answers; 0 is unknown.
	Output int
	// Unpaired says that no pair can serve the request, only one worker alone.
	Unpaired bool
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
	Rank         *worker.Rank // of a pair, the prefill rank: all else but DecodeChoice is about it
	Decode       *worker.Rank // the other half of the pair; nil: the request goes to Rank alone
	Matched      int          // leading blocks of the prompt that the rank will not compute again
	Total        int          // whole blocks of the prompt
	PromptTokens int          // exact or estimated
	Cached       int          // prompt tokens expected from the cache
	Predicted    int          // prompt tokens that prompts in flight there will have cached, or have
	Fetch        Fetch        // prompt tokens expected from KV tiers
	Exact        bool
	// Overruled is the worst that the facts about GPUs say of the ranks that were chosen among, where they leave out all others too.
	Overruled    Against
	Source       Source // of Matched and Cached; unless it is Events, they are estimates
	Choice       policy.Choice
	DecodeChoice policy.Choice // where Decode is not nil

	output  int
	block   int // tokens a block of what may be predicted; 0 is nothing
	scope   radix.Scope
	sent    sent
	session uint64
	ask     uint64 // Answer.Number, where another router chose
}

// Uncached returns the prompt tokens that the rank is expected to compute.
func (d *Decision) Uncached() int { return d.PromptTokens - max(d.Cached, d.Predicted, d.Fetch.upto) }

// Work is the request as its rank's load counts it; output is the most tokens that its answers may have, 0 unknown, and sure says that
// no more than the decision's prompt tokens are computed.
func (d *Decision) Work(output int, sure bool) worker.Work {
	return worker.Work{
		Uncached: d.Uncached(), Fetched: d.Fetch.Tokens(), Prompt: d.PromptTokens, Output: output, Guessed: !sure, Exact: d.Exact && d.Source == Events,
	}
}

// Scratch is the memory of one Pick, reused by the next.
type Scratch struct {
	ranks      []*worker.Rank
	candidates []policy.Candidate
	matches    []match           // by candidate
	credits    []float64         // by candidate: the share of a match that is believed
	loads      []worker.LoadView // by candidate
	byHolder   []match           // by index holder and by seat, zero between picks
	overlaps   []radix.Overlap
	blocks     []radix.Hash // of the prompt, as far as they are known: in chain, or the prompt's own
	chain      []radix.Hash
	pairs      []uint32
	bigrams    []radix.Hash
	answer     []radix.Hash
	foretold   bool   // something is predicted of this prompt
	nanos      int64  // unix time of the choice
	judged     bool   // the facts about GPUs say anything of a worker here
	passed     passed // ranks that they speak against
	tracker
	legs
	asker
	fewer
	shelved

	marks   []uint32     // of the prompt, where marked
	marked  bool         // since the choice began
	expects []rankTokens // what ranks are about to compute of it for other routers
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

// gather fills s.ranks with those that could take the request, and s.decodes with the other halves of pairs: the ready ones, or
// the slow ones when nobody is ready.
func (r *Router) gather(s *Scratch, p *Prompt, tried []*worker.Rank, now time.Time) error {
	snap, model := r.registry.Snapshot(), p.Model
	s.nanos = now.UnixNano()
	served := s.collect(snap, p, tried)
	s.unite()
	if len(s.ranks) > 0 {
		s.preferAdapter(p.LoRA)
		return s.oneModel(model)
	}
	if missing := s.missing(); missing != nil {
		return noLeg(model, missing)
	}
	if !served && len(snap.Ranks) > 0 && described(snap) {
		return fmt.Errorf("cannot route model %q: %w", model, ErrUnknownModel)
	}
	return fmt.Errorf("cannot route model %q: %w", model, ErrNoWorker)
}

// preferAdapter keeps the ranks whose worker has the adapter loaded, where some
// have, for a pair one of each role: others must load it first, or refuse the
// request.
func (s *Scratch) preferAdapter(name string) {
	if name == "" {
		return
	}
	alone, haveAlone := withAdapter(s.ranks[:s.alone], name)
	prefills, havePrefill := withAdapter(s.ranks[s.alone:], name)
	decodes, haveDecode := withAdapter(s.decodes, name)
	switch havePair := havePrefill && haveDecode; {
	case haveAlone && !havePair:
		prefills, decodes = nil, decodes[:0]
	case havePair && !haveAlone:
		alone = alone[:0]
	}
	s.alone, s.decodes = len(alone), decodes
	s.ranks = append(s.ranks[:s.alone], prefills...) // alone is their beginning
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
