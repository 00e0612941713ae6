package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/bench/proxy/load"
)

// proxyOptions are the flags of bin/bench proxy.
type proxyOptions struct {
	load     load.Config
	apis     []string
	size     proxy.Size
	url      string
	pid      int
	rounds   int
	jsonFile string

	soak   time.Duration
	memory bool

	cluster       proxy.ClusterConfig
	events        bool
	gap, ttft     time.Duration
	page          int
	routerFlags   string
	out, progress io.Writer
}

func newProxyCommand() *cobra.Command {
	o := &proxyOptions{size: 300}
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Measure what the router costs: processor time, added latency, memory",
		Long: `Proxy measures a router between workers and clients that cost next to nothing
themselves. By default it starts both, the router with a core of its own, and compares
requests sent to the workers with the same ones sent through the router: as fast as they
are answered, and at a fixed rate, where latency counts from when a request was due.

  --soak 10m              half of what it can do, for long, in five rounds with a rest
                          behind each: what grows from rest to rest. All kinds of
                          requests at a time; some clients leave, and one worker after
                          the other fails, of which no client may notice anything
  --memory                9 s of 64 KiB prompts of which no two are alike

With --url it measures what runs already: one run, or one of the modes above. --pid is
the process of which processor time and memory are counted. bench/proxy/compare.py
measures several routers that way. Answers are checked; what fails makes the command fail.`,
		Example: `  bin/bench proxy
  bin/bench proxy --api chat,ids --size 8k --rounds 5
  bin/bench proxy --soak 10m
  bin/bench proxy --url 127.0.0.1:8000 --pid 4242 --api ids --rate 500 --time 10s --json -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.flags(c)
	c.AddCommand(newMockCommand())
	return c
}

func (o *proxyOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.url, "url", "", "measure this router, host:port, instead of one's own; several, separated by commas, take turns by connection")
	f.IntVar(&o.pid, "pid", 0, "process of that router; its children count too")
	f.StringSliceVar(&o.apis, "api", []string{"chat", "ids"}, "`list` of chat, completions, text (/generate) and ids (/generate)")
	f.Var(&o.size, "size", "of a body: 300, 8k, 64k, 8m")
	f.IntVar(&o.load.Tokens, "tokens", 16, "of an answer, and events of a stream")
	f.BoolVar(&o.load.Stream, "stream", false, "answers are streams of events")
	f.IntVar(&o.load.Turns, "turns", 0, "conversations that grow to --size in so many turns; 0: no two prompts share a beginning")
	f.Uint64Var(&o.load.Seed, "seed", 1, "of prompts and arrivals")
	f.IntVar(&o.load.Connections, "connections", 64, "of the closed loop, or with --url and --rate at most")
	f.Float64Var(&o.load.Rate, "rate", 0, "requests a second; with --url 0 is a closed loop (default 500 without --url)")
	f.DurationVar(&o.load.Warm, "warm", time.Second, "before the measured time")
	f.DurationVar(&o.load.Time, "time", 3*time.Second, "measured time of a run")
	f.DurationVar(&o.load.Timeout, "timeout", 30*time.Second, "of a request")
	f.StringVar(&o.load.Model, "model", "mock", "model to name in each request")
	f.IntVar(&o.rounds, "rounds", 3, "measure all so many times and print medians")
	f.StringVar(&o.jsonFile, "json", "", "write the result to this file as JSON; - is standard output, and no table")
	f.DurationVar(&o.soak, "soak", 0, "send half of what the router can do for so long, of all kinds of requests, and rest 35 s five times; with --url, of one kind")
	f.BoolVar(&o.memory, "memory", false, "send long prompts of which no two are alike")
	f.IntVar(&o.cluster.Workers, "workers", 4, "workers of one's own router")
	f.BoolVar(&o.events, "events", true, "they publish KV events and tokenize")
	f.IntVar(&o.page, "page-size", 16, "tokens a cache page")
	f.DurationVar(&o.ttft, "ttft", 0, "time until an answer begins")
	f.DurationVar(&o.gap, "gap", 0, "time between two events of a stream (default with --soak 2ms, else none)")
	f.BoolVar(&o.cluster.Pin, "pin", true, "give one's own router a core of its own")
	f.StringVar(&o.cluster.Warmpath, "warmpath", "bin/warmpath", "the program that is started as the router")
	f.StringVar(&o.routerFlags, "router-flags", "", "further flags for one's own warmpath serve")
	c.MarkFlagsMutuallyExclusive("soak", "memory")
}

// oneAtATime is shared by this process's progress and the logs of its children.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// Write implements io.Writer.
func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

func (o *proxyOptions) run(cmd *cobra.Command) error {
	o.out, o.progress = cmd.OutOrStdout(), &oneAtATime{w: cmd.ErrOrStderr()}
	if o.rounds < 1 || o.soak < 0 || len(o.apis) == 0 {
		return errors.New("cannot measure: give at least one round and API, and nothing below 0")
	}
	for _, a := range o.apis {
		if _, err := load.ParseAPI(a); err != nil {
			return err
		}
	}
	o.load.Size, o.load.API = int(o.size), load.API(o.apis[0])
	if o.gap == 0 && o.soak > 0 {
		o.gap = 2 * time.Millisecond
	}
	if o.url != "" {
		o.load.Targets = strings.Split(o.url, ",")
		for i, t := range o.load.Targets {
			o.load.Targets[i] = strings.TrimPrefix(strings.TrimSuffix(t, "/"), "http://")
		}
		return o.measure(cmd.Context(), nil)
	}
	return o.own(cmd.Context())
}

// own starts workers and a router, measures, and ends them.
func (o *proxyOptions) own(ctx context.Context) (err error) {
	if _, err := os.Stat(o.cluster.Warmpath); err != nil {
		return fmt.Errorf("cannot find the router to measure: %w: run make build, or give --warmpath", err)
	}
	if o.cluster.Bench, err = os.Executable(); err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	o.cluster.Log, o.cluster.Serve = o.progress, strings.Fields(o.routerFlags)
	o.cluster.Mock = []string{"--page-size", strconv.Itoa(o.page), "--gap", o.gap.String(), "--ttft", o.ttft.String()}
	if o.events {
		o.cluster.Mock = append(o.cluster.Mock, "--events", "--tokenize")
	}
	if o.load.Rate == 0 {
		o.load.Rate = proxy.DefaultRate
	}
	cl, err := proxy.Start(ctx, o.cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cl.Close()) }()
	o.load.Targets, o.pid = []string{cl.Router}, cl.PID
	return o.measure(ctx, cl.Workers)
}

// measure runs the mode that was asked for. workers is nil where they are not known.
func (o *proxyOptions) measure(ctx context.Context, workers []string) error {
	special := o.soak > 0 || o.memory
	if special && o.pid == 0 {
		return errors.New("cannot look at the router: give --pid with --url")
	}
	switch {
	case o.soak > 0:
		s, err := proxy.MeasureSoak(ctx, proxy.SoakConfig{Load: o.load, PID: o.pid, Time: o.soak, Workers: workers, Progress: o.progress})
		return o.report(s, s != nil, err)
	case o.memory:
		m, err := proxy.MeasureMemory(ctx, o.load, o.pid, o.progress)
		return o.report(m, m != nil && m.Run != nil, err)
	case workers == nil:
		m, err := proxy.Measure(ctx, o.load, o.pid)
		if err == nil {
			err = m.Err()
		}
		return o.report(m, m != nil, err)
	}
	cfg := proxy.StandardConfig{Load: o.load, Rounds: o.rounds, Workers: workers, Router: o.load.Targets[0], PID: o.pid, Progress: o.progress}
	for _, a := range o.apis {
		cfg.APIs = append(cfg.APIs, load.API(a))
	}
	all, err := proxy.Standard(ctx, cfg)
	return o.report(measurements(all), len(all) > 0, err)
}

// measurements are shown as a table.
type measurements []*proxy.Measurement

// String implements fmt.Stringer.
func (m measurements) String() string {
	var b strings.Builder
	_ = proxy.Table(&b, m) // a Builder takes everything
	return b.String()
}

// report prints and writes the measurements, also after failures.
func (o *proxyOptions) report(what fmt.Stringer, measured bool, err error) error {
	if !measured {
		return err
	}
	if o.jsonFile != "-" {
		fmt.Fprintln(o.out, strings.TrimSuffix(what.String(), "\n"))
	}
	if o.jsonFile == "" {
		return err
	}
	text, failed := json.Marshal(what)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("cannot encode the result: %w", failed))
	}
	text = append(text, '\n')
	if o.jsonFile == "-" {
		_, failed = o.out.Write(text)
	} else {
		failed = os.WriteFile(o.jsonFile, text, 0o644)
	}
	if failed != nil {
		return errors.Join(err, fmt.Errorf("cannot keep the result: %w", failed))
	}
	return err
}
