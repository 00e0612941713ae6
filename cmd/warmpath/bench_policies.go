package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// policiesOptions are the flags of warmpath bench policies.
type policiesOptions struct {
	trace     string
	workload  string
	sessions  string
	users     policies.Users
	gap       time.Duration
	find      bool
	seeds     int
	promise   policies.Objective
	requests  int
	names     []string
	share     string
	objective time.Duration
	advise    bool
	jsonFile  string
	cfg       policies.Config
}

// usualPolicies are compared by default: the common policies, and the bound.
var usualPolicies = []string{"round-robin", "least-load", "power-of-two", "approx", "dynamo", "lmetric", "kv", policies.Greedy}

func newBenchPoliciesCommand() *cobra.Command {
	o := &policiesOptions{}
	c := &cobra.Command{
		Use:   "policies",
		Short: "Simulate routing policies on a trace, side by side",
		Long: `Policies plays a trace on simulated workers and routers, once for each policy, in
simulated time: an hour of a cluster takes a fraction of a second. The same flags give the
same numbers. It prints a table and a recommendation.

A trace is a file in Mooncake's format (JSON lines of timestamp, input_length,
output_length and hash_ids; optional block_size and answer_id), a log of
warmpath serve --access-log, which is one, or a made one:
` + workloadHelp() + `
"greedy" is a router that knows every cache and every queue as they are; the others know
events and their own dispatches ("approx": its own tree).

With --queue kv is also simulated with requests held back while all workers are full, as
the router does, and sent in the queue's order when one has room: depth-first (requests
that share what a worker was given last go first) or fifo. Elsewhere all requests are sent at once and
wait at workers. Not simulated there: priorities, turns of clients, the deadline.`,
		Example: `  warmpath bench policies --workload zipf
  warmpath bench policies --trace conversation_trace.jsonl --workers 8
  warmpath bench policies --trace mine.jsonl --routers 4 --share gossip --rate 1.5 --policy kv,approx
  warmpath bench policies --trace mine.jsonl --rate 2 --queue depth-first,fifo --policy kv
  warmpath bench policies --trace mine.jsonl --ablate all --policy kv
  warmpath bench policies --sessions sessions.jsonl --users 60 --for 30m
  warmpath bench policies --sessions sessions.jsonl --find-users --ttft-p95 2s --itl-p95 50ms`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.flags(c)
	return c
}

func (o *policiesOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.trace, "trace", "", "trace file in Mooncake's format, or an access log")
	f.StringVar(&o.workload, "workload", "conversations", "made trace, where no file is given; see above")
	f.IntVar(&o.requests, "requests", 0, "most requests to take from the trace (default: all of a file, 10000 of a made trace)")
	f.Uint64Var(&o.cfg.Seed, "seed", 1, "seed of made traces, ties and losses")
	f.StringSliceVar(&o.names, "policy", usualPolicies, "`list` of policies to compare, or \"all\": "+strings.Join(policies.Names(), ", "))
	f.IntVar(&o.cfg.Workers, "workers", 8, "simulated workers")
	f.Float64SliceVar(&o.cfg.Speeds, "speeds", []float64{1}, "speed of each worker relative to the others; the last one goes on")
	f.IntVar(&o.cfg.CacheTokens, "cache-tokens", 1_000_000, "KV pool of each worker, in tokens")
	f.IntVar(&o.cfg.HostTokens, "host-tokens", 0, "host-memory tier of each worker, in tokens")
	f.IntVar(&o.cfg.TierTokens, "tier-tokens", 0, "KV tier of each node, in tokens, as warmpath node --kv-tier has; --ablate tiers adds kv without knowledge of tiers")
	f.IntVar(&o.cfg.NodeWorkers, "node-workers", 1, "workers that share a node and its KV tier")
	f.Float64Var(&o.cfg.LinkTokensPerSecond, "link-speed", 75_000,
		"with --tier-tokens: tokens that a node pulls a second from other nodes' tiers, 320 KB each over 200 Gbit/s; 0: it does not")
	f.IntVar(&o.cfg.PageSize, "page-size", 16, "tokens per cache page")
	f.Float64Var(&o.cfg.Service.PrefillTokensPerSecond, "prefill-rate", 16_000, "prompt tokens that a worker computes a second")
	f.IntVar(&o.cfg.Service.ChunkedPrefill, "chunked-prefill", 8192, "most new tokens of one prefill batch")
	f.IntVar(&o.cfg.Service.MaxRunning, "max-running", 64, "most requests that a worker runs at once")
	f.IntVar(&o.cfg.Prefill, "prefill-workers", 0, "workers that only compute prompts; the others then only decode")
	f.Float64Var(&o.cfg.Rate, "rate", 1, "arrivals as a multiple of the trace's own")
	f.BoolVar(&o.cfg.Spread, "spread", false, "spread requests of one instant until the next one: undoes a trace's coarse clock")
	f.IntVar(&o.cfg.Routers, "routers", 1, "router replicas; each gets its share of the requests by chance")
	f.StringVar(&o.share, "share", "", "messages between routers: polls (none: others' requests are seen in workers' reports), gossip (each dispatch); default: polls, and kv with gossip beside it")
	f.DurationVar(&o.cfg.Hop, "hop", 5*time.Millisecond, "time until replicas know of each other's requests, with --share gossip")
	f.DurationVar(&o.cfg.EventDelay, "event-delay", 5*time.Millisecond, "time from a change in a worker's cache until routers know of it")
	f.DurationVar(&o.cfg.Poll, "poll", 100*time.Millisecond, "time between reports of a worker's load: engines publish it at each fifth step; 1s where they are asked over HTTP")
	f.BoolVar(&o.cfg.Approx, "approximate", false, "all policies see a tree of sent prompts, as sglang-router's cache_aware does, instead of KV events")
	f.StringSliceVar(&o.cfg.Study, "ablate", nil, "also simulate kv without each of this `list` (with a plus: without several at once), or \"all\": "+strings.Join(policies.Ablations(), ", "))
	f.StringSliceVar(&o.cfg.Queues, "queue", nil, `also simulate kv with a queue in front of full workers, as warmpath serve has it: `+strings.Join(policies.Queues(), ", "))
	o.cfg.Options = policy.Defaults
	f.Float64Var(&o.cfg.Options.OverlapWeight, "kv-overlap-score-weight", 1, "kv, dynamo: worth of a cached token, in tokens to prefill")
	f.Float64Var(&o.cfg.Options.Temperature, "router-temperature", 0, "kv, dynamo: 0 takes the cheapest worker, above it a softmax over costs")
	f.BoolVar(&o.advise, "advise", true, "end with a recommendation; it simulates the trace some 15 times more")
	f.DurationVar(&o.objective, "objective", 2*time.Second, "the time to first token that 99 of 100 requests should keep, for the recommendation")
	f.StringVar(&o.jsonFile, "json", "", "also write the results to this file as JSON")
	o.userFlags(c)
	c.MarkFlagsMutuallyExclusive("trace", "workload", "sessions")
}

// workloadHelp lists the generated workloads.
func workloadHelp() string {
	var b strings.Builder
	names, texts := policies.Workloads()
	for i, name := range names {
		fmt.Fprintf(&b, "  %-14s %s\n", name, texts[i])
	}
	return b.String()
}

func (o *policiesOptions) run(cmd *cobra.Command) error {
	requests, name, err := o.open()
	if err != nil {
		return err
	}
	o.cfg.Share = policies.Sharing(o.share)
	if slices.Equal(o.names, []string{"all"}) {
		o.names = policies.Names()
	}
	if slices.Equal(o.cfg.Study, []string{"all"}) {
		o.cfg.Study = policies.Ablations()
	}
	errOut := cmd.ErrOrStderr()
	var bar func(int)
	progress := func(policy string, done, total int) {
		if bar == nil {
			bar = replay.NewProgress(errOut, total, policy)
		}
		if bar(done); done == total {
			bar = nil
		}
	}
	report, err := o.simulate(cmd.Context(), name, requests, progress, errOut)
	if report == nil || err != nil {
		return err
	}
	if o.advise && report.Users == nil {
		fmt.Fprintln(errOut, "recommendation: other numbers of workers and routers")
		if err := report.Advise(cmd.Context(), requests, o.objective, nil); err != nil {
			return fmt.Errorf("cannot make the recommendation: %w", err)
		}
	}
	return errors.Join(report.Table(cmd.OutOrStdout()), writeJSON(o.jsonFile, report))
}

// open reads or generates the trace.
func (o *policiesOptions) open() (requests []policies.Request, name string, err error) {
	if o.requests < 0 {
		return nil, "", fmt.Errorf("cannot simulate %d requests", o.requests)
	}
	if o.sessions != "" {
		return o.openSessions()
	}
	if o.trace == "" {
		n := o.requests
		if n == 0 {
			n = 10_000
		}
		requests, err = policies.Synthetic(o.workload, o.cfg.Seed, n)
		return requests, o.workload, err
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return nil, "", fmt.Errorf("cannot open the trace: %w", err)
	}
	defer f.Close()
	recorded, err := trace.Read(f, o.requests)
	name = filepath.Base(o.trace)
	if rate, ok := policies.Found(recorded.Requests); ok {
		name += fmt.Sprintf(" (%.1f %% of its prompt tokens were found in a cache)", 100*rate)
	}
	if recorded.Left > 0 {
		name += fmt.Sprintf(" (%s lines left out: not answered, or tokens unknown)", trace.Grouped(recorded.Left))
	}
	return policies.Recorded(recorded.Requests), name, err
}
