package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/bench/proxy/load"
)

// proxyOptions are the flags of bin/bench proxy.
type proxyOptions struct {
	load     load.Config
	api      string
	pid      int
	jsonFile string
}

func newProxyCommand() *cobra.Command {
	o := &proxyOptions{}
	c := &cobra.Command{
		Use:   "proxy --url HOST:PORT",
		Short: "Measure what a router costs: processor time, latency, memory",
		Long: `Proxy sends prompts to a router that runs already, as fast as they are answered, or at a
rate, where latency counts from when a request was due. --pid is the process of which
processor time and memory are counted. Answers are checked; what fails makes the command
fail. bench/proxy/compare.py starts routers and workers that cost next to nothing, and
measures them side by side that way.`,
		Example: `  bench/proxy/compare.py --within 5
  bin/bench proxy --url 127.0.0.1:8000 --pid 4242 --api ids --rate 500 --time 10s --json -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.load.Targets, "url", nil, "the router, host:port; several, separated by commas, take turns by connection")
	f.IntVar(&o.pid, "pid", 0, "its process; its children count too")
	f.StringVar(&o.api, "api", "chat", "chat, completions, text (/generate) or ids (/generate)")
	f.IntVar(&o.load.Size, "size", 300, "bytes of a body")
	f.IntVar(&o.load.Tokens, "tokens", 16, "of an answer, and events of a stream")
	f.BoolVar(&o.load.Stream, "stream", false, "answers are streams of events")
	f.IntVar(&o.load.Turns, "turns", 0, "conversations that grow to --size in so many turns; 0: no two prompts share a beginning")
	f.Uint64Var(&o.load.Seed, "seed", 1, "of prompts and arrivals")
	f.IntVar(&o.load.Connections, "connections", 64, "of a closed loop, or with --rate at most")
	f.Float64Var(&o.load.Rate, "rate", 0, "requests a second; 0 is a closed loop")
	f.DurationVar(&o.load.Warm, "warm", time.Second, "before the measured time")
	f.DurationVar(&o.load.Time, "time", 3*time.Second, "measured time")
	f.DurationVar(&o.load.Timeout, "timeout", 30*time.Second, "of a request")
	f.StringVar(&o.load.Model, "model", "mock", "model to name in each request")
	f.StringVar(&o.jsonFile, "json", "", "write the result to this file as JSON; - is standard output, and no summary")
	_ = c.MarkFlagRequired("url") // it is there
	c.AddCommand(newMockCommand())
	return c
}

func (o *proxyOptions) run(cmd *cobra.Command) (err error) {
	if o.load.API, err = load.ParseAPI(o.api); err != nil {
		return err
	}
	for i, t := range o.load.Targets {
		o.load.Targets[i] = strings.TrimPrefix(strings.TrimSuffix(t, "/"), "http://")
	}
	m, err := proxy.Measure(cmd.Context(), o.load, o.pid)
	if err != nil {
		return err
	}
	return errors.Join(m.Err(), o.report(cmd.OutOrStdout(), m))
}

// report prints and writes the measurement, also after failures.
func (o *proxyOptions) report(out io.Writer, m *proxy.Measurement) error {
	if o.jsonFile != "-" {
		fmt.Fprintln(out, m)
		return writeJSON(o.jsonFile, m)
	}
	if err := json.NewEncoder(out).Encode(m); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}
