package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Request is what a policy knows of a request.
type Request struct {
	Tokens int    // prompt tokens, or an estimate of them when Exact is false
	Exact  bool   // the prompt's token ids are known
	Turn   uint64 // number of this request among all, for taking turns
	Seed   uint64 // random, for ties and samples
}

// Candidate is one rank that could take the request.
type Candidate struct {
	Cached int // prompt tokens expected in the rank's cache, at most Tokens-1
	// Predicted is the part of the prompt that the rank will hold, if it does not
	// already, once it is done with the prompts it has.
	Predicted int
	Host      int   // of Cached, those that are not on the GPU and must be copied there
	Pending   int64 // prompt tokens dispatched to the rank and not yet prefilled
	InFlight  int64 // requests dispatched to the rank and not ended
}

// Choice is a policy's answer.
type Choice struct {
	Index int     // into the candidates
	Cost  float64 // of the winner, in the policy's own unit; lower is better
	Why   string  // constant words, for people
}

// Policy picks one of at least one candidates.
type Policy interface {
	Pick(req Request, candidates []Candidate) Choice
	Name() string
}

// Options are the knobs that some policies have.
type Options struct {
	OverlapWeight float64 // kv: worth of a cached token in prefill tokens; 1 is its true cost
	Temperature   float64 // kv: 0 takes the cheapest, above it a softmax over costs
}

// Defaults are the options that need no tuning: a cached token is worth the
// prefill that it saves, and the cheapest candidate wins.
var Defaults = Options{OverlapWeight: 1}

// ErrUnknown is a policy name that does not exist.
var ErrUnknown = errors.New("policy: unknown")

var makers = map[string]func(Options) Policy{
	"kv":           func(o Options) Policy { return KV{Options: o} },
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

// mix spreads a seed over 64 bits (splitmix64's finalizer).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
