package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Request is the part of a request that policies use.
type Request struct {
	Tokens int    // prompt tokens, or an estimate of them when Exact is false
	Exact  bool   // the prompt's token ids are known
	Turn   uint64 // number of this request among all, for taking turns
	Seed   uint64 // random, for ties and samples
	Output int    // tokens that the answer is expected to have; 0 is unknown
	// ID of the candidate that has the request's session, for [Sticky]; 0 is none.
	SessionRank uint64
	Stored      bool // some candidates may have a Tier or Remote, which are ignored without it
	// Chunk is the tokens of a full prefill batch, in which kv measures small numbers of tokens:
	// SGLang's chunked_prefill_size; 0 is 8,192.
	Chunk int
	// Routers is the number of routers that tell each other of their requests, 0 or 1 for one
	// alone: kv takes the sessions of the others to be like those of this one.
	Routers int
	// Answer is the seconds that an answer takes after its first token, the mean of the last ones;
	// 0 is unknown.
	Answer float64
}

// Candidate is one rank that could take the request. A zero is unknown unless a count of zero
// has a meaning; a policy without a fact decides by the others.
type Candidate struct {
	Cached int // prompt tokens expected in the rank's cache, at most Tokens-1
	// Predicted is the part of the prompt that the rank holds or will hold when the requests in
	// flight there are done.
	Predicted int
	Host      int   // tokens of Cached that are not on the GPU and must be copied there
	Disk      int   // tokens of Host that are not in host memory either
	Pending   int64 // prompt tokens sent to the rank and not prefilled yet; see [Backlog]
	InFlight  int64 // requests dispatched to the rank and not ended
	Waiting   int64 // of InFlight, requests without a first token

	Rate       float64 // prompt tokens that the rank prefills per second; see [Speed]
	Pool       int64   // tokens of its KV pool
	Used       int64   // of Pool, those of running requests: they cannot be evicted
	MaxRunning int64   // requests that it runs at once: its largest batch
	Tree       int64   // tokens of the rank in the approximate index
	Age        float64 // seconds since the rank's last report or event
	ID         uint64  // of the rank, for Sticky; the same in every router

	Weight   float64 // remaining share of the rank's speed by facts about GPUs; 0 is 1
	FullRate float64 // of a rank with a Weight below 1, its Rate before

	Fetch

	// Live are the tokens at the rank that other sessions are expected to need again; see package
	// session. It is more than Pool where not all of them fit.
	Live float32
}

// Fetch is the part of a prompt behind Candidate.Cached that KV tiers hold: Tier tokens in that
// of the rank's node, Remote tokens behind these in a peer's. TierTime and RemoteTime are the
// seconds until they would be there. They are narrow: a choice among 1,000 ranks waits for memory.
type Fetch struct {
	Tier, Remote         int32
	TierTime, RemoteTime float32
}

// Choice is a policy's answer.
type Choice struct {
	Index  int     // into the candidates
	Cost   float64 // of the winner, in the policy's own unit; lower is better
	Reason string  // constant words: the reason of the choice
}

// Policy picks one of at least one candidates.
type Policy interface {
	Pick(req Request, candidates []Candidate) Choice
	Name() string
	Needs() Needs
}

// Options are the settings of policies.
type Options struct {
	OverlapWeight float64 // kv, dynamo: value of a cached token; 1 is its true cost
	Temperature   float64 // kv, dynamo: 0 takes the cheapest, above it a softmax over costs
	Interval      float64 // staleness: seconds between reports; 0 is 5, its source's slowest
	Without       Terms   // kv: terms of the cost to leave out
	// Replica is this router's number, from 0, among Replicas that tell each other nothing and
	// choose among the same candidates in the same order; kv only.
	Replica, Replicas int
}

// Defaults are the options that need no tuning: a cached token is worth the prefill that it
// saves, and the cheapest candidate wins.
var Defaults = Options{OverlapWeight: 1}

// ErrUnknown is a policy name that does not exist.
var ErrUnknown = errors.New("policy: unknown")

var makers = map[string]func(Options) Policy{
	"kv":           func(o Options) Policy { return KV{Options: o} },
	"approx":       func(Options) Policy { return Approx{} },
	"dynamo":       func(o Options) Policy { return Dynamo{Options: o} },
	"staleness":    func(o Options) Policy { return Staleness{Options: o} },
	"lmetric":      func(Options) Policy { return LMetric{} },
	"round-robin":  func(Options) Policy { return RoundRobin{} },
	"random":       func(Options) Policy { return Random{} },
	"least-load":   func(Options) Policy { return LeastLoad{} },
	"power-of-two": func(Options) Policy { return PowerOfTwo{} },
}

// New returns the policy of that name.
func New(name string, o Options) (Policy, error) {
	maker, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("cannot use policy %q: %w: want one of %s", name, ErrUnknown, strings.Join(Names(), ", "))
	}
	return maker(o), nil
}

// Names lists the policies in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(makers))
	for name := range makers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// uncached returns the tokens that a candidate would compute. Predicted tokens cost their wait,
// which Pending counts.
func uncached(req *Request, c *Candidate) int {
	return max(req.Tokens-max(c.Cached, c.Predicted), 0)
}

// mix spreads a seed over 64 bits (splitmix64's finalizer).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit turns a seed into a number in [0, 1).
func unit(seed uint64) float64 { return float64(mix(seed)>>11) / (1 << 53) }
