package routing

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

var (
	// ErrUnknownModel is a model that no worker serves.
	ErrUnknownModel = errors.New("routing: no worker serves this model")
	// ErrNoWorker is a model without a fit, untried worker, or without such a rank.
	ErrNoWorker = errors.New("routing: no worker is ready")
	// ErrNoPrefill comes with ErrNoWorker where no prefill worker is ready.
	ErrNoPrefill = errors.New("routing: decode workers are ready, but no prefill worker is")
	// ErrNoDecode comes with ErrNoWorker where no decode worker is ready.
	ErrNoDecode = errors.New("routing: prefill workers are ready, but no decode worker is")
	// ErrAmbiguous is a request without a model where several are served.
	ErrAmbiguous = errors.New("routing: several models are served; the request must name one")
)

// Router picks ranks for prompts. Its exported fields are set before the first Pick.
type Router struct {
	// Approx is the approximate index. Without it, ranks without events and prompts without
	// token ids are routed by load.
	Approx *ApproxIndex
	// Sessions, if set, remembers the rank of each session, for policy.Sticky.
	Sessions *Sessions
	// Known, if set, knows the sessions of prompts.
	Known *KnownSessions
	// MinUncached is the least number of tokens to compute that is worth a pair where
	// regular ranks serve the model too; 0 is DefaultMinUncached, and below 0 length never
	// decides.
	MinUncached int
	// Peers, if set, are told of this router's prompts.
	Peers Peers
	// Shared takes the prompts of other routers that no event tells of yet.
	Shared SharedPredictions
	// Exclusions counts the effects of facts about GPUs.
	Exclusions Exclusions
	// Tiers, if set, knows the blocks in the KV tiers of nodes.
	Tiers TierDirectory
	// Pulls, if set, takes pull hints for the nodes of chosen ranks.
	Pulls PullHints

	registry *worker.Registry
	matcher  matcher
	inFlight inFlight
	policy   atomic.Pointer[activePolicy]
	links    atomic.Pointer[policy.Links]
	seed     func() uint64 // safe for concurrent use
	turn     atomic.Uint64
	answers  answerTime
	recent   recent
	facts    sync.Pool // *facts
}

// New returns a router over these parts. seed returns the random numbers of policies.
func New(reg *worker.Registry, index *radix.Index, view func() *ingest.View, p policy.Policy, seed func() uint64) *Router {
	r := &Router{
		registry: reg, matcher: matcher{index: index, view: view}, seed: seed,
		inFlight: inFlight{registry: reg, index: index},
	}
	r.Shared.t = &r.inFlight
	r.SetPolicy(p)
	return r
}

// activePolicy is a policy with its needs.
type activePolicy struct {
	policy policy.Policy
	needs  policy.Needs
}

// approximate reports whether the policy was made for the approximate index and takes overlap
// from nothing else.
func (a *activePolicy) approximate() bool {
	return a.needs.Has(policy.NeedsOverlap) && !a.needs.Has(policy.NeedsTokens)
}

// Policy returns the active policy.
func (r *Router) Policy() policy.Policy { return r.policy.Load().policy }

// SetPolicy activates another policy. A choice under way may be prepared for the old policy and
// made by the new one, without the facts that only the new one needs.
func (r *Router) SetPolicy(p policy.Policy) { r.policy.Store(&activePolicy{p, p.Needs()}) }

// SetLinks publishes measured links between nodes, for pairs and for pulls between tiers; nil:
// none.
func (r *Router) SetLinks(l *policy.Links) { r.links.Store(l) }

// Links returns the measured links.
func (r *Router) Links() *policy.Links { return r.links.Load() }

// Seed returns the random number of a choice, for Explain.
func (r *Router) Seed() uint64 { return r.seed() }

// NeedsTokens reports whether a rank of the model has an event stream, which names blocks by
// token ids. Without one, text is as good and costs no request to a tokenizer.
func (r *Router) NeedsTokens(model string) bool {
	for _, shape := range r.matcher.view().Shapes {
		if shape.Model == model {
			return true
		}
	}
	return false
}

// answerTime is the mean time of the last answers behind their first token, of all models.
type answerTime struct{ seconds atomic.Uint64 } // float64 bits

// answersMeant is the number of answers that the mean is mostly of.
const answersMeant = 64

// add takes an answer into the mean. Of answers at one instant, some may be lost.
func (a *answerTime) add(took time.Duration) {
	old, s := a.mean(), took.Seconds()
	if old > 0 {
		s = old + (s-old)/answersMeant
	}
	a.seconds.Store(math.Float64bits(s))
}

// mean returns the mean in seconds; 0: no answer has ended.
func (a *answerTime) mean() float64 { return math.Float64frombits(a.seconds.Load()) }
