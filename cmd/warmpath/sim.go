package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// simOptions are the flags of warmpath sim that are not fields of sim.Config.
type simOptions struct {
	workers   int
	encoding  string
	noEvents  bool
	eventPort int
	journal   string
}

// newSimCommand returns `warmpath sim`: simulated SGLang workers alone.
func newSimCommand() *cobra.Command {
	var cfg sim.Config
	opt := simOptions{}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run simulated SGLang workers",
		Long: "Run simulated SGLang workers: SGLang's HTTP API, a real prefix cache with LRU eviction,\n" +
			"continuous batching with a stated service-time model, and KV events over ZMQ.\n" +
			"\"warmpath sim fault\" makes a running one fail on demand.\n" +
			"With --mode prefill and --mode decode they serve requests in pairs, as engines do with --disaggregation-mode.",
		Example: "  warmpath sim --mode prefill --listen 127.0.0.1:30000 --bootstrap-port 8998\n" +
			"  warmpath sim --mode decode --listen 127.0.0.1:30010",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opt.apply(cmd, &cfg); err != nil {
				return err
			}
			return runSim(cmd, opt, cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opt.workers, "workers", 1, "number of workers")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:30000", "address of the first worker; each next one takes the next port")
	f.StringVar(&cfg.Model, "model", "simulated", "served model name")
	f.IntVar(&cfg.PageSize, "page-size", 16, "tokens per cache page")
	f.IntVar(&cfg.CachePages, "cache-pages", 62_500, "KV pool of a rank in pages")
	f.IntVar(&cfg.MaxRunning, "max-running", 64, "largest running batch of a rank")
	f.IntVar(&cfg.DPSize, "dp-size", 1, "data-parallel ranks per worker")
	f.IntVar(&cfg.TPSize, "tp-size", 1, "GPUs per rank, as /server_info reports")
	f.IntVar(&cfg.ContextLength, "context-length", 131_072, "longest prompt and answer together, in tokens")
	f.Float64Var(&cfg.TimeScale, "time-scale", 1, "simulated seconds per real second: 60 runs an hour in a minute")
	f.Float64Var(&cfg.Service.PrefillTokensPerSecond, "prefill-rate", 16_000, "prompt tokens computed per second")
	f.IntVar(&cfg.Service.ChunkedPrefill, "chunked-prefill", 8_192, "most prompt tokens of one batch")
	f.DurationVar(&cfg.Service.PrefillBase, "prefill-base", 0, "fixed time of a prefill batch (default 8ms)")
	f.DurationVar(&cfg.Service.DecodeBase, "decode-base", 0, "fixed time of a decode step (default 14ms)")
	f.DurationVar(&cfg.Service.DecodePerRequest, "decode-per-request", 0, "time of a decode step for each running request (default 60µs)")
	secretFlag(f, &cfg.APIKey, "api-key", "all routes but /ready and /health ask for this key, as with SGLang's --api-key")
	secretFlag(f, &cfg.AdminAPIKey, "admin-api-key", "/abort_request and /flush_cache ask for this key instead, as with SGLang's --admin-api-key")
	pairSimFlags(f, &cfg)
	f.StringVar(&opt.encoding, "encoding", "0.5.23", "event encoding of this release: 0.5.8, 0.5.15, 0.5.18, 0.5.21, 0.5.23 or vllm")
	f.Bool("events", true, "publish KV events, replay and load over ZMQ")
	f.IntVar(&opt.eventPort, "events-port", 0, "first ZMQ port, three per rank (0: any free ports)")
	f.IntVar(&cfg.BufferSteps, "buffer-steps", 10_000, "event batches kept for replay")
	f.StringVar(&opt.journal, "journal", "", "append to this file +N when a request begins and -N when its answer is whole, where N is the number behind the first # of its body")
	cmd.AddCommand(newSimFaultCommand())
	return cmd
}

// pairSimFlags are the flags of workers that serve requests in pairs.
func pairSimFlags(f *pflag.FlagSet, cfg *sim.Config) {
	f.StringVar(&cfg.Mode, "mode", "", "prefill or decode: half of a pair (default: a whole worker)")
	f.IntVar(&cfg.BootstrapPort, "bootstrap-port", 0, "bootstrap port of the first prefill worker; each next one takes the next (0: any free port)")
	f.DurationVar(&cfg.BootstrapDelay, "bootstrap-delay", 0, "simulated time until a prefill worker's bootstrap server can serve")
	f.DurationVar(&cfg.BootstrapTimeout, "bootstrap-timeout", 0, "simulated time that a prefill worker waits for a decode worker (default 5m)")
	f.DurationVar(&cfg.WaitingTimeout, "waiting-timeout", 0, "simulated time that a decode worker waits for keys and values (default 5m)")
	f.Float64Var(&cfg.Service.TransferTokensPerSecond, "transfer-rate", 0, "KV tokens that a prefill rank sends per second (default 125000)")
	f.DurationVar(&cfg.Service.TransferLatency, "transfer-latency", 0, "latency of each transfer (default 3ms)")
	f.BoolVar(&cfg.DecodeCache, "decode-cache", false, "decode workers keep a prefix cache, as with --disaggregation-decode-enable-radix-cache")
	f.BoolVar(&cfg.HeaderOverrides, "header-overrides", false, "x-override-* headers count, as with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1")
}

// apply turns the options into cfg and refuses contradictions.
func (o *simOptions) apply(cmd *cobra.Command, cfg *sim.Config) (err error) {
	if o.workers < 1 {
		return fmt.Errorf("cannot run %d workers", o.workers)
	}
	if cfg.Encoding, err = kvevent.ParseEncoding(o.encoding); err != nil {
		return err
	}
	events, err := cmd.Flags().GetBool("events")
	o.noEvents = !events
	return err
}

// runSim runs the workers until the command's context ends.
func runSim(cmd *cobra.Command, o simOptions, cfg sim.Config) error {
	if o.journal != "" {
		journal, err := os.OpenFile(o.journal, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("cannot keep a journal: %w", err)
		}
		defer journal.Close()
		cfg.Journal = journal
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	for i := range o.workers {
		one, err := o.worker(cfg, i)
		if err == nil {
			err = startSim(ctx, cmd, group, one)
		}
		if err != nil {
			group.Go(func() error { return err }) // ends the workers that run already
			break
		}
	}
	return group.Wait()
}

// startSim starts one worker and prints its addresses.
func startSim(ctx context.Context, cmd *cobra.Command, group *errgroup.Group, cfg sim.Config) error {
	w, err := sim.New(cfg)
	if err != nil {
		return err
	}
	group.Go(func() error { return w.Run(ctx) })
	events := w.EventsEndpoint()
	if events == "" {
		events = "off"
	}
	bootstrap := ""
	if cfg.Mode == sim.ModePrefill {
		bootstrap = fmt.Sprintf(" bootstrap %d", w.BootstrapPort())
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s events %s%s\n", w.URL(), events, bootstrap)
	return err
}

// worker is cfg for worker i.
func (o *simOptions) worker(cfg sim.Config, i int) (sim.Config, error) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return cfg, fmt.Errorf("cannot use listen address %q: %w", cfg.Listen, err)
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return cfg, fmt.Errorf("cannot use listen address %q: %w", cfg.Listen, errors.Unwrap(err))
	}
	if first != 0 {
		first += i
	}
	cfg.Listen = net.JoinHostPort(host, strconv.Itoa(first))
	if cfg.Mode == sim.ModePrefill && cfg.BootstrapPort != 0 {
		cfg.BootstrapPort += i
	}
	at := func(n int) string {
		if o.eventPort == 0 {
			return "tcp://" + net.JoinHostPort(host, "*")
		}
		return "tcp://" + net.JoinHostPort(host, strconv.Itoa(o.eventPort+(3*i+n)*cfg.DPSize))
	}
	cfg.Events, cfg.Replay, cfg.Load = at(0), at(1), at(2)
	if o.noEvents {
		cfg.Events = "off"
	}
	return cfg, nil
}
