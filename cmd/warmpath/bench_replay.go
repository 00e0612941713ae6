package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// replayOptions are the flags of warmpath bench replay.
type replayOptions struct {
	trace       string
	workload    string // of package policies, where no file is given
	requests    int
	seed        uint64
	url         string
	policies    []string
	workers     int
	routers     int
	replicas    string
	notes       io.Writer // the routers' notes at the end
	cacheTokens int
	prefillRate float64
	api         string
	jsonFile    string
	cfg         replay.Config
	replayUsers
}

func newBenchReplayCommand() *cobra.Command {
	o := &replayOptions{}
	c := &cobra.Command{
		Use:   "replay",
		Short: "Replay a trace: hit rate and time to first token, policies side by side",
		Long: `Replay sends the requests of a trace at the trace's own times and prints hit rate and
latency as a client sees them. By default it starts simulated SGLang workers and the router in this process, once
for each policy, with empty caches. With --url it replays to a cluster that runs already.

A trace is a file in Mooncake's format (JSON lines of timestamp, input_length,
output_length and hash_ids), or a log of warmpath serve --access-log, or a made one of
warmpath bench policies. With --sessions and --users it is a closed loop: users play recorded
agent sessions, one after the other, and a turn comes its think time after the answer before
it. Prompts are made up.

The same traffic is simulated as by warmpath bench policies, and the forecast stands beside the
measurement: where they differ, the simulation, the router or a busy machine is to blame. With
--url the forecast is made where --workers says how many workers are there, for policy kv and caches
that are empty at first: give another --seed to a made trace that has been replayed there before.`,
		Example: `  warmpath bench replay --requests 500
  warmpath bench replay --workload tenants --cache-tokens 40000 --time-scale 4 --policy kv
  warmpath bench replay --trace conversation_trace.jsonl --requests 2000 --workers 8 --time-scale 20
  warmpath bench replay --url http://127.0.0.1:8000 --time-scale 1 --api completions
  warmpath bench replay --sessions sessions.jsonl --users 40 --for 10m --time-scale 4 --policy kv
  warmpath bench replay --sessions sessions.jsonl --users 40 --url http://127.0.0.1:8000 --api messages --session-field metadata.user_id`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringVar(&o.trace, "trace", "", "trace file in Mooncake's format (default: a made trace)")
	f.StringVar(&o.workload, "workload", "conversations", "made trace, one of those of warmpath bench policies")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the made trace")
	f.StringVar(&o.url, "url", "", "replay to this OpenAI or SGLang URL instead of to simulated workers")
	f.StringSliceVar(&o.policies, "policy", []string{"kv", "round-robin"}, "`list` of policies to compare, each on a fresh cluster")
	f.IntVar(&o.workers, "workers", 8, "simulated workers")
	f.IntVar(&o.routers, "routers", 1, "routers for them, each with its share of the requests by chance; they are one cluster over NATS")
	f.StringVar(&o.replicas, "replicas", config.PeersAuto, "sharing between these routers: auto or off")
	f.IntVar(&o.cacheTokens, "cache-tokens", 1_000_000, "KV pool of each simulated worker, in tokens")
	f.IntVar(&o.cfg.PageSize, "page-size", 16, "tokens per cache page; with --url the servers' own, to read X-Warmpath-Overlap")
	f.StringVar(&o.api, "api", "completions", "generate, completions, chat or messages; the last cannot demand an answer's length of an engine")
	f.StringVar(&o.cfg.Model, "model", "", "model to name in each request (default: none, or the simulated one)")
	f.IntVar(&o.requests, "requests", 2000, "most requests to replay; 0 is the whole trace")
	f.Float64Var(&o.prefillRate, "prefill-rate", 16_000, "prompt tokens that a simulated worker computes a second")
	f.Float64Var(&o.cfg.TimeScale, "time-scale", 20, "seconds of the trace a second; simulated workers run as fast (with --url the default is 1)")
	f.Uint32Var(&o.cfg.Vocabulary.First, "first-token", 100, "smallest token id in prompts")
	f.Uint32Var(&o.cfg.Vocabulary.Size, "vocabulary", 32_000, "number of token ids in prompts")
	f.BoolVar(&o.cfg.Simulated, "simulated", false, "with --url: the workers there are simulated, at the same time scale; times are then in theirs")
	f.StringVar(&o.jsonFile, "json", "", "also write the results to this file as JSON")
	o.userFlags(c)
	return c
}

// benchTraffic is a trace to replay, or users.
type benchTraffic struct {
	title    string // of a policy's progress
	requests int    // for the progress; 0: as many as there are time for
	play     func(ctx context.Context, url string, cfg replay.Config) (*replay.Result, error)
	simulate func(ctx context.Context, cfg policies.Config, policy string) (*policies.Report, error)
}

func (o *replayOptions) run(cmd *cobra.Command) error {
	var err error
	if o.cfg.API, err = replay.ParseAPI(o.api); err != nil {
		return err
	}
	o.notes = cmd.ErrOrStderr()
	start, forecast := o.simulated, cmd.Flags().Changed("workers")
	if o.url != "" {
		o.policies = []string{"(the URL's)"}
		if !cmd.Flags().Changed("time-scale") && !o.cfg.Simulated {
			o.cfg.TimeScale = 1 // Real workers do not run faster when they are asked to.
		}
		if forecast && o.closed() && !o.cfg.Simulated && o.cfg.TimeScale != 1 {
			return errors.New("cannot forecast users who think faster than real workers compute: leave out --workers or --time-scale, or give --simulated")
		}
		start = func(context.Context, string) (*benchCluster, error) {
			return &benchCluster{o.url, func() error { return nil }}, nil
		}
	} else {
		o.cfg.Simulated = true
		if o.routers < 1 {
			return fmt.Errorf("cannot start %d routers", o.routers)
		}
		if o.workers < 1 || o.cacheTokens < 2*o.cfg.PageSize {
			return fmt.Errorf("cannot start %d workers of %d cached tokens", o.workers, o.cacheTokens)
		}
	}
	open := o.openTrace
	if o.closed() {
		open = o.openUsers
	}
	t, err := open()
	if err != nil {
		return err
	}
	var results []*replay.Result
	for _, policy := range o.policies {
		r, err := o.measure(cmd.Context(), &t, policy, start)
		if r != nil {
			results = append(results, r)
		}
		if err != nil {
			what := "with policy " + policy
			if o.url != "" {
				what = "to the URL"
			}
			return errors.Join(fmt.Errorf("cannot replay %s: %w", what, err), replay.Table(cmd.OutOrStdout(), results))
		}
	}
	err = o.report(cmd.OutOrStdout(), results)
	if o.url == "" || forecast {
		err = errors.Join(err, o.compareForecast(cmd.Context(), cmd.OutOrStdout(), &t, results))
	}
	return err
}

// measure plays the traffic against a cluster with a policy.
func (o *replayOptions) measure(
	ctx context.Context, t *benchTraffic, policy string, start func(context.Context, string) (*benchCluster, error),
) (r *replay.Result, err error) {
	cluster, err := start(ctx, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	cfg := o.cfg
	cfg.Progress = replay.NewProgress(o.notes, t.requests, policy+t.title)
	if r, err = t.play(ctx, cluster.url, cfg); r != nil {
		r.Policy = policy
	}
	return r, err
}

func (o *replayOptions) report(w io.Writer, results []*replay.Result) error {
	if err := replay.Table(w, results); err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if r.Errors > 0 {
			failed += r.Errors
			fmt.Fprintf(w, "%s: %d errors; the first: %s\n", r.Policy, r.Errors, r.FirstError)
		}
	}
	if err := writeJSON(o.jsonFile, results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d requests failed", failed)
	}
	return nil
}

// openTrace reads the trace, or makes one.
func (o *replayOptions) openTrace() (benchTraffic, error) {
	requests, err := o.read()
	if err != nil {
		return benchTraffic{}, err
	}
	for i := range requests {
		requests[i].Answer = 0 // of no later prompt: workers make up others than the trace has
	}
	return benchTraffic{
		requests: len(requests),
		play: func(ctx context.Context, url string, cfg replay.Config) (*replay.Result, error) {
			return replay.Run(ctx, url, requests, cfg)
		},
		simulate: func(ctx context.Context, cfg policies.Config, policy string) (*policies.Report, error) {
			return policies.Simulate(ctx, "", policies.Recorded(requests), cfg, []string{policy}, nil)
		},
	}, nil
}

func (o *replayOptions) read() ([]trace.Request, error) {
	if o.trace == "" {
		if o.requests == 0 {
			return nil, errors.New("cannot replay all of a made trace, which has no end: give --requests")
		}
		made, err := policies.Synthetic(o.workload, o.seed, o.requests)
		return policies.Blocks(made, o.cfg.PageSize), err
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return nil, fmt.Errorf("cannot open the trace: %w", err)
	}
	defer f.Close()
	t, err := trace.Read(f, o.requests)
	return t.Requests, err
}

// benchCluster is a cluster to replay to, in this process or elsewhere.
type benchCluster struct {
	url   string
	close func() error
}

// runBench runs a cluster in this process until it is closed.
func runBench(ctx context.Context, url string, run func(context.Context) error) *benchCluster {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return &benchCluster{url, func() error {
		stop()
		return <-done
	}}
}

// simulated starts simulated workers and a router, and waits until the router knows all of them.
func (o *replayOptions) simulated(ctx context.Context, policy string) (*benchCluster, error) {
	worker := sim.Config{
		Model: o.cfg.Model, PageSize: o.cfg.PageSize, CachePages: o.cacheTokens / o.cfg.PageSize,
		TimeScale: o.cfg.TimeScale, Log: quietLogger(),
	}
	if o.closed() {
		worker.ContextLength = o.cacheTokens
	}
	worker.Service.PrefillTokensPerSecond = o.prefillRate
	router := router.Config{
		Listen: "127.0.0.1:0", Policy: config.Policy{Name: policy}, Version: thisBuild().version, Log: quietLogger(),
		// The workers are in this busy process: a slow probe means nothing.
		Probes: config.Probes{Timeout: time.Minute, HangAfter: time.Hour},
	}
	if o.routers > 1 {
		router.Cluster.Peers = o.replicas
		return o.severalRouters(ctx, worker, router)
	}
	cl, err := newCluster(clusterSize{workers: o.workers}, worker, router)
	if err != nil {
		return nil, err
	}
	b := runBench(ctx, "http://"+cl.router.Addr(), cl.run)
	if err := cl.waitReady(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}
