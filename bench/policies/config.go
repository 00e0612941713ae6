package policies

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Config holds the settings of a simulation. The zero value of a field stands for its default.
type Config struct {
	Workers     int       // default 8
	Speeds      []float64 // of each worker, relative to Service; the last one goes on. Default 1.
	Service     Service
	PageSize    int // tokens in a page; default 16
	CacheTokens int // KV pool of a worker; default 1,000,000
	HostTokens  int // host tier of a worker; 0 is none
	Tiers
	Pools

	Rate float64 // arrivals per second, as a multiple of the trace's; default 1
	Seed uint64
	// Spread undoes the steps of a trace's clock: requests of one instant are spread evenly
	// until the next one. Mooncake's conversation trace has steps of 3 s.
	Spread bool

	Replicas
	Events
	// Poll is the time between reports of a worker's load; default 100 ms: SGLang publishes at
	// each fifth step of its scheduler, five decode steps, and at the latest every second.
	// Workers that publish none are asked once a second.
	Poll time.Duration

	Options policy.Options // of the policies; its zero is [policy.Defaults]
	Ablate  []string       // names of [Ablations] that all policies are denied
	Variants
	// Approx makes every policy use the approximate tree instead of events.
	Approx bool
	// TreeTokens bounds a worker's approximate tree; default 16 million: sglang-router's 2^26
	// characters.
	TreeTokens int
}

// Tiers are the KV tiers of nodes; see nodeTier.go.
type Tiers struct {
	TierTokens  int // of each node; 0 is none
	NodeWorkers int // workers that share a node; default 1
	// LinkTokensPerSecond is the speed of pulls from one node's tier to another's; 0: there are
	// none.
	LinkTokensPerSecond float64

	gathered time.Duration // further delay of a tier's events; default 100 ms: sidecars gather them
}

// Pools separate prefill from decode.
type Pools struct {
	// Prefill workers, the first ones, only compute prompts and the others only decode; 0: all
	// do both.
	Prefill int
	// TransferTokensPerSecond is the speed of pages between them; default 75,000, 320 KB a
	// token over 200 Gbit/s.
	TransferTokensPerSecond float64
}

// Replicas are the routers.
type Replicas struct {
	Routers int // each with its own share of the requests; default 1
	// Share is how replicas know of each other's requests before the next report. Each knows that
	// it is one of several (policy.Options.Replicas or policy.Request.Routers), unless Ablate has
	// "replica". Its zero is SharePolls; with several routers, kv is then also simulated with
	// ShareGossip.
	Share Sharing
	// Hop is the time until replicas know of a step; default 5 ms: routers publish so often.
	Hop time.Duration
}

// Events are the changes of caches that routers learn.
type Events struct {
	EventDelay time.Duration // from a change until routers know; default 5 ms
}

// Variants are further simulations of kv.
type Variants struct {
	Study  []string // names of [Ablations]: kv without each of them
	Queues []string // orders of the router's queue: kv with each in front of full workers

	both  bool   // Share was left open
	queue string // of Queues, that of this run
	// deadline is a router's --queue-timeout; default 5 min. Only its turns for overdue requests
	// are simulated.
	deadline time.Duration
}

// Sharing is the way in which replicas know of each other's requests.
type Sharing string

// The ways of sharing.
const (
	SharePolls  Sharing = "polls"  // nothing: other replicas' requests show in workers' reports
	ShareGossip Sharing = "gossip" // each dispatch, first token and end, a hop later
)

// ErrConfig is a configuration that cannot be simulated.
var ErrConfig = errors.New("policies: bad configuration")

func (c Config) withDefaults() Config {
	if c.Share == "" {
		c.Share, c.both = SharePolls, c.Routers > 1
	}
	or(&c.Workers, 8)
	or(&c.PageSize, 16)
	or(&c.CacheTokens, 1_000_000)
	or(&c.Rate, 1)
	or(&c.TransferTokensPerSecond, 75_000)
	or(&c.Routers, 1)
	or(&c.NodeWorkers, 1)
	or(&c.EventDelay, 5*time.Millisecond)
	or(&c.Poll, 100*time.Millisecond)
	or(&c.Hop, 5*time.Millisecond)
	or(&c.TreeTokens, 1<<24)
	or(&c.gathered, 100*time.Millisecond)
	or(&c.deadline, 5*time.Minute)
	or(&c.Options, policy.Defaults)
	if len(c.Speeds) == 0 {
		c.Speeds = []float64{1}
	}
	c.Service = c.Service.withDefaults()
	return c
}

// most bounds sizes so that pages and workers fit their integers.
const (
	mostWorkers = 4096
	mostPool    = 1 << 30
)

func (c *Config) check() error {
	switch {
	case c.Workers < 1 || c.Workers > mostWorkers || c.Routers < 1 || c.Routers > mostWorkers:
		return fmt.Errorf("cannot simulate %d workers and %d routers: %w: want 1 to %d", c.Workers, c.Routers, ErrConfig, mostWorkers)
	case c.PageSize < 1 || c.CacheTokens < 2*c.PageSize || c.CacheTokens > mostPool || c.HostTokens < 0 || c.HostTokens > mostPool:
		return fmt.Errorf("cannot simulate a cache of %d tokens, %d in host memory, in pages of %d: %w",
			c.CacheTokens, c.HostTokens, c.PageSize, ErrConfig)
	case c.TierTokens < 0 || c.TierTokens > mostPool || (c.TierTokens > 0 && c.TierTokens < c.PageSize) || c.NodeWorkers < 1 || !(c.LinkTokensPerSecond >= 0) ||
		c.LinkTokensPerSecond > 1e12:
		return fmt.Errorf("cannot simulate tiers of %d tokens on nodes of %d workers with %v tokens/s between them: %w",
			c.TierTokens, c.NodeWorkers, c.LinkTokensPerSecond, ErrConfig)
	case c.Prefill < 0 || (c.Prefill > 0 && c.Prefill >= c.Workers) || !(c.TransferTokensPerSecond > 0):
		return fmt.Errorf("cannot let %d of %d workers prefill for the others at %v tokens/s: %w",
			c.Prefill, c.Workers, c.TransferTokensPerSecond, ErrConfig)
	case !(c.Rate > 0) || c.Rate > 1e6 || c.Rate < 1e-3:
		return fmt.Errorf("cannot simulate arrivals at %v times their rate: %w: want 0.001 to 1,000,000", c.Rate, ErrConfig)
	case c.EventDelay < 0 || c.Poll <= 0:
		return fmt.Errorf("cannot simulate event delay %v, poll %v: %w", c.EventDelay, c.Poll, ErrConfig)
	case slices.ContainsFunc(c.Speeds, func(s float64) bool { return !(s >= 0.01 && s <= 100) }):
		return fmt.Errorf("cannot simulate workers of speeds %v: %w: want 0.01 to 100", c.Speeds, ErrConfig)
	case !(c.Service.PrefillTokensPerSecond > 0) || math.IsInf(c.Service.PrefillTokensPerSecond, 0) || c.Service.ChunkedPrefill < c.PageSize ||
		c.Service.MaxRunning < 1 || c.Service.DecodeBase <= 0 || c.Service.PrefillBase < 0:
		return fmt.Errorf("cannot simulate the service times %+v: %w", c.Service, ErrConfig)
	}
	if !slices.Contains([]Sharing{SharePolls, ShareGossip}, c.Share) || c.Hop < 0 {
		return fmt.Errorf("cannot share by %q with hops of %v: %w: want polls or gossip", c.Share, c.Hop, ErrConfig)
	}
	for _, name := range c.Queues {
		if !slices.Contains(Queues(), name) || c.Prefill > 0 {
			return fmt.Errorf("cannot queue %q: %w: want one of %v, without workers that only prefill",
				name, ErrConfig, Queues())
		}
	}
	for name := range strings.SplitSeq(strings.Join(slices.Concat(c.Ablate, c.Study), "+"), "+") {
		if name != "" && !slices.Contains(Ablations(), name) {
			return fmt.Errorf("cannot take away %q: %w: want one of %v", name, ErrConfig, Ablations())
		}
	}
	return nil
}

func (c *Config) speed(worker int) float64 { return c.Speeds[min(worker, len(c.Speeds)-1)] }
