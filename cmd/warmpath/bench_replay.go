package main

import (
	"context"
	"encoding/json"
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
output_length and hash_ids), or a log of warmpath serve --access-log. Without --trace it is
a synthetic one: conversations of several turns over shared system prompts.

With --sessions and --users it is a closed loop: users play recorded agent sessions, one
after the other, and a turn comes its think time after the answer before it. Prompts are
made up. The same users are simulated, and the forecast stands beside the measurement.
With --url the forecast is made where --workers says how many workers are there.`,
		Example: `  warmpath bench replay --requests 500
  warmpath bench replay --trace conversation_trace.jsonl --requests 2000 --workers 8 --time-scale 20
  warmpath bench replay --url http://127.0.0.1:8000 --time-scale 1 --api completions
  warmpath bench replay --sessions sessions.jsonl --users 40 --for 10m --time-scale 4 --policy kv
  warmpath bench replay --sessions sessions.jsonl --users 40 --url http://127.0.0.1:8000 --api messages --session-field metadata.user_id`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringVar(&o.trace, "trace", "", "trace file in Mooncake's format (default: a synthetic trace)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the synthetic trace")
	f.StringVar(&o.url, "url", "", "replay to this OpenAI or SGLang URL instead of to simulated workers")
	f.StringSliceVar(&o.policies, "policy", []string{"kv", "round-robin"}, "`list` of policies to compare, each on a fresh cluster")
	f.IntVar(&o.workers, "workers", 8, "simulated workers")
	f.IntVar(&o.routers, "routers", 1, "routers for them, each with its share of the requests by chance; they are one cluster over NATS")
	f.StringVar(&o.replicas, "replicas", config.PeersAuto, "sharing between these routers: auto or off")
	f.IntVar(&o.cacheTokens, "cache-tokens", 1_000_000, "KV pool of each simulated worker, in tokens")
	f.IntVar(&o.cfg.PageSize, "page-size", 16, "tokens per cache page; with --url the servers' own, to read X-Warmpath-Overlap")
	f.StringVar(&o.api, "api", "completions", "generate, completions, chat or messages; the last cannot demand an answer's length of an engine")
	f.StringVar(&o.cfg.Model, "model", "", "model to name in each request (default: none, or the simulated one)")
	f.IntVar(&o.cfg.Requests, "requests", 2000, "most requests to replay; 0 is the whole trace")
	f.Float64Var(&o.prefillRate, "prefill-rate", 16_000, "prompt tokens that a simulated worker computes a second")
	f.Float64Var(&o.cfg.TimeScale, "time-scale", 20, "seconds of the trace a second; simulated workers run as fast (with --url the default is 1)")
	f.Uint32Var(&o.cfg.Vocabulary.First, "first-token", 100, "smallest token id in prompts")
	f.Uint32Var(&o.cfg.Vocabulary.Size, "vocabulary", 32_000, "number of token ids in prompts")
	f.BoolVar(&o.cfg.Simulated, "simulated", false, "with --url: the workers there are simulated, at the same time scale; times are then in theirs")
	f.StringVar(&o.jsonFile, "json", "", "also write the results to this file as JSON")
	o.userFlags(c)
	return c
}

func (o *replayOptions) run(cmd *cobra.Command) error {
	var err error
	if o.cfg.API, err = replay.ParseAPI(o.api); err != nil {
		return err
	}
	if o.sessions == "" && o.trace == "" && o.cfg.Requests == 0 {
		return errors.New("cannot replay all of the synthetic trace, which has no end: give --requests")
	}
	o.notes = cmd.ErrOrStderr()
	start := o.simulated
	if o.url != "" {
		o.policies = []string{"(the URL's)"}
		if !cmd.Flags().Changed("time-scale") && !o.cfg.Simulated {
			o.cfg.TimeScale = 1 // Real workers do not run faster when they are asked to.
		}
		start = func(context.Context, string) (replay.Cluster, error) { return remote(o.url), nil }
	} else {
		o.cfg.Simulated = true
		if o.routers < 1 {
			return fmt.Errorf("cannot start %d routers", o.routers)
		}
		if o.workers < 1 || o.cacheTokens < 2*o.cfg.PageSize {
			return fmt.Errorf("cannot start %d workers of %d cached tokens", o.workers, o.cacheTokens)
		}
	}
	if o.closed() {
		return o.playUsers(cmd, start)
	}
	var results []*replay.Result
	for _, policy := range o.policies {
		cfg := o.cfg
		cfg.Progress = replay.NewProgress(cmd.ErrOrStderr(), cfg.Requests, policy)
		some, err := replay.Compare(cmd.Context(), []string{policy}, start, o.open, cfg)
		results = append(results, some...)
		if err != nil {
			return errors.Join(err, replay.Table(cmd.OutOrStdout(), results))
		}
	}
	return o.report(cmd.OutOrStdout(), results)
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
	if o.jsonFile != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return fmt.Errorf("cannot encode the results: %w", err)
		}
		if err := os.WriteFile(o.jsonFile, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("cannot keep the results: %w", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d requests failed", failed)
	}
	return nil
}

// open opens the trace from its beginning, once for each policy.
func (o *replayOptions) open() (replay.Source, error) {
	if o.trace == "" {
		made, err := policies.Synthetic("conversations", o.seed, o.cfg.Requests)
		return replay.NewRecorded(policies.Blocks(made, o.cfg.PageSize)), err
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return nil, fmt.Errorf("cannot open the trace: %w", err)
	}
	defer f.Close()
	t, err := trace.Read(f, o.cfg.Requests)
	return replay.NewRecorded(t.Requests), err
}

// remote is a cluster outside this process.
type remote string

func (r remote) URL() string { return string(r) }
func (remote) Close() error  { return nil }

// benchCluster is a cluster in this process.
type benchCluster struct {
	url   string
	stop  context.CancelFunc
	done  chan error
	atEnd func() // may be nil
}

func (b *benchCluster) URL() string { return b.url }

func (b *benchCluster) Close() error {
	if b.atEnd != nil {
		b.atEnd()
	}
	b.stop()
	return <-b.done
}

// simulated starts simulated workers and a router, and waits until the router knows all of them.
func (o *replayOptions) simulated(ctx context.Context, policy string) (replay.Cluster, error) {
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
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &benchCluster{url: "http://" + cl.router.Addr(), stop: stop, done: make(chan error, 1)}
	go func() { b.done <- cl.run(running) }()
	if err := cl.waitReady(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}
