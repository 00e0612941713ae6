package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
)

// forecastOptions are the flags of warmpath bench forecast.
type forecastOptions struct {
	cases     []string
	files     map[string]string // trace of a case, instead of the made one
	duration  time.Duration
	rounds    int
	seeds     int
	policy    string
	timeScale float64
	tokens    int
	polled    bool
	jsonFile  string
}

// forecastResult is one case: the simulation and the measurement of the same requests.
type forecastResult struct {
	Case      string             `json:"case"`
	TimeScale float64            `json:"time_scale"`
	Tokens    int                `json:"tokens"` // factor
	Polled    bool               `json:"polled"`
	Requests  int                `json:"requests"`
	Live      []*replay.Result   `json:"live"`
	Outside   []float64          `json:"outside"`  // of each measurement, see outside
	Forecast  []*policies.Result `json:"forecast"` // by seed
}

func newBenchForecastCommand() *cobra.Command {
	o := &forecastOptions{}
	c := &cobra.Command{
		Use:   "forecast",
		Short: "Compare the simulation of a trace with a measurement of it",
		Long: `Forecast plays the same requests twice: in the simulation of "warmpath bench policies", and in real
time on simulated workers with real sockets behind the router in this process. It prints both side by side:
where they differ, either the simulation or the router is wrong. The cases are
` + forecastHelp() + `
All times are those of the engines. With --time-scale 4 engines and arrivals are four times as fast, with --tokens 8
prompts, answers, pools and pages are eight times as large and engines compute as many more tokens a second: the
results are the same, except for constants of the router and delays of this machine.`,
		Example: `  warmpath bench forecast
  warmpath bench forecast --case tenants --polled --time-scale 4
  warmpath bench forecast --trace conversation=conversation_trace.jsonl --trace agents=agents.jsonl --rounds 3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringSliceVar(&o.cases, "case", forecastNames(), "`list` of cases")
	f.StringToStringVar(&o.files, "trace", nil, "`case=file` in Mooncake's format, in place of the made requests of the case")
	f.DurationVar(&o.duration, "duration", 5*time.Minute, "length of the traces, in the time of the engines")
	f.IntVar(&o.rounds, "rounds", 1, "measurements of each case, of which the table has the median; 0: the simulation alone")
	f.IntVar(&o.seeds, "seeds", 5, "simulations of each case, with different random ties; the table has the median")
	f.StringVar(&o.policy, "policy", "kv", "policy of the router")
	f.Float64Var(&o.timeScale, "time-scale", 1, "seconds of the engines a second: both engines and arrivals are so much faster")
	f.IntVar(&o.tokens, "tokens", 1, "factor of all numbers of tokens, and of the engines' speed in tokens")
	f.BoolVar(&o.polled, "polled", false, "workers publish no load: the router asks for it")
	f.StringVar(&o.jsonFile, "json", "", "also write the results to this file as JSON")
	return c
}

func forecastHelp() string {
	var b strings.Builder
	for i := range forecastCases {
		fmt.Fprintf(&b, "  %-14s %s\n", forecastCases[i].name, forecastCases[i].what)
	}
	return b.String()
}

func forecastNames() (names []string) {
	for i := range forecastCases {
		names = append(names, forecastCases[i].name)
	}
	return names
}

func (o *forecastOptions) run(cmd *cobra.Command) error {
	if o.rounds < 0 || o.seeds < 1 || o.tokens < 1 || !(o.timeScale > 0) || o.duration <= 0 {
		return fmt.Errorf("cannot compare %d rounds with %d seeds of %v, tokens times %d, time scale %v", o.rounds, o.seeds, o.duration, o.tokens, o.timeScale)
	}
	for name := range o.files {
		if !slices.Contains(forecastNames(), name) {
			return fmt.Errorf("cannot use a trace for case %q: want one of %v", name, forecastNames())
		}
	}
	var results []*forecastResult
	for _, name := range o.cases {
		i := slices.IndexFunc(forecastCases, func(c forecastCase) bool { return c.name == name })
		if i < 0 {
			return fmt.Errorf("cannot compare case %q: want one of %v", name, forecastNames())
		}
		r, err := o.compare(cmd.Context(), cmd.ErrOrStderr(), &forecastCases[i])
		if r != nil {
			results = append(results, r)
		}
		if err != nil {
			return errors.Join(err, forecastTable(cmd.OutOrStdout(), results))
		}
	}
	return errors.Join(forecastTable(cmd.OutOrStdout(), results), o.keep(results))
}

// compare simulates and measures one case.
func (o *forecastOptions) compare(ctx context.Context, progress io.Writer, c *forecastCase) (*forecastResult, error) {
	requests, err := o.requests(c)
	if err != nil {
		return nil, err
	}
	r := &forecastResult{Case: c.name, TimeScale: o.timeScale, Tokens: o.tokens, Polled: o.polled, Requests: len(requests)}
	for seed := range o.seeds {
		cfg := o.simulated(c)
		cfg.Seed = uint64(seed)
		report, err := policies.Simulate(ctx, c.name, policies.Recorded(requests), cfg, []string{o.policy}, nil)
		if err != nil {
			return r, err
		}
		r.Forecast = append(r.Forecast, report.Results[0])
	}
	for range o.rounds {
		var cluster *forecastCluster
		cfg := replay.Config{API: replay.APICompletions, TimeScale: o.timeScale, Simulated: true, PageSize: forecastPage * o.tokens}
		cfg.Progress = replay.NewProgress(progress, len(requests), c.name)
		open := func() (replay.Source, error) { return replay.NewRecorded(requests), nil }
		some, err := replay.Compare(ctx, []string{o.policy}, func(ctx context.Context, policy string) (replay.Cluster, error) {
			var err error
			cluster, err = o.start(ctx, c, policy)
			return cluster, err
		}, open, cfg)
		for _, x := range some {
			r.Live, r.Outside = append(r.Live, x), append(r.Outside, x.TTFT.Mean.Seconds()-cluster.inside)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// requests are those of a case. Answers are part of no later prompt: a simulated worker makes up
// others than the trace has.
func (o *forecastOptions) requests(c *forecastCase) ([]trace.Request, error) {
	var all []trace.Request
	if name := o.files[c.name]; name != "" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("cannot open the trace: %w", err)
		}
		defer f.Close()
		t, err := trace.Read(f, 0)
		if err != nil {
			return nil, err
		}
		all = t.Requests
	} else {
		made, err := policies.Synthetic(c.workload, 1, int(math.Ceil(o.duration.Seconds()*mostArrivals)))
		if err != nil {
			return nil, err
		}
		all = policies.Blocks(made, forecastPage)
	}
	if end := slices.IndexFunc(all, func(r trace.Request) bool { return r.At > o.duration }); end >= 0 {
		all = all[:end]
	}
	for i := range all {
		r := &all[i]
		r.Answer = 0
		r.Input, r.Output, r.Block = r.Input*o.tokens, max(r.Output, 1)*o.tokens, r.Block*o.tokens
	}
	return all, nil
}

func (o *forecastOptions) keep(results []*forecastResult) error {
	if o.jsonFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the results: %w", err)
	}
	if err := os.WriteFile(o.jsonFile, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot keep the results: %w", err)
	}
	return nil
}

// forecastTable writes a row for each case.
func forecastTable(w io.Writer, results []*forecastResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\trequests\tTTFT mean live\tforecast\tratio\toutside engines\tratio within\tp99 live\tforecast\thits live\tforecast\tdifference\terrors\tlate\t")
	for _, r := range results {
		late, failed := time.Duration(0), 0
		for _, x := range r.Live {
			late, failed = max(late, x.MaxLate), failed+x.Errors
		}
		live, told := liveFigures(r), toldFigures(r)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", r.Case, trace.Grouped(r.Requests),
			figure("%.3f s", live.mean), figure("%.3f s", told.mean), figure("%.3f", live.mean/told.mean),
			figure("%.3f s", live.outside), figure("%.3f", (live.mean-live.outside)/told.mean), figure("%.2f s", live.p99), figure("%.2f s", told.p99),
			figure("%.1f %%", 100*live.hits), figure("%.1f %%", 100*told.hits), figure("%+.1f", 100*(live.hits-told.hits)), failed, late.Round(time.Millisecond))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

// figure prints a number; "-" is unknown.
func figure(format string, x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// figures are compared: times to first token in seconds of the engines, the share of prompt tokens
// found, and of the mean the part that passes outside of the engines: in the router, and by delays
// of this machine.
type figures struct{ mean, p99, hits, outside float64 }

func liveFigures(r *forecastResult) (f figures) {
	all := r.Live
	f.outside = medianOf(r.Outside, func(x float64) float64 { return x })
	f.mean = medianOf(all, func(r *replay.Result) float64 { return r.TTFT.Mean.Seconds() })
	f.p99 = medianOf(all, func(r *replay.Result) float64 { return r.TTFT.P99.Seconds() })
	f.hits = medianOf(all, (*replay.Result).HitRate)
	return f
}

// toldFigures are in the time of the engines: a simulation at time scale 4 has engines four times
// as fast.
func toldFigures(r *forecastResult) (f figures) {
	all, scale := r.Forecast, r.TimeScale
	f.mean = scale * medianOf(all, func(r *policies.Result) float64 { return r.TTFT.Mean.Seconds() })
	f.p99 = scale * medianOf(all, func(r *policies.Result) float64 { return r.TTFT.P99.Seconds() })
	f.hits = medianOf(all, func(r *policies.Result) float64 { return r.Hits })
	return f
}

func medianOf[T any](all []T, of func(T) float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	values := make([]float64, len(all))
	for i, x := range all {
		values[i] = of(x)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
