package policies

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Table writes the report for people: the trace, a row for each policy, warnings and advice.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintln(w, r.head())
	fmt.Fprintln(w, r.Config.describe())
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "policy\tTTFT mean\tp50\tp95\tp99\thits\trequests/s\tITL p50\tp95\tp99\tTPOT p95\timbalance\tbusy\tforeseen\t")
	for _, x := range r.Results {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%.1f %%\t%.2f\t%s\t%s\t%s\t%s\t%.2f\t%.0f %%\t%.1f %%\t\n", x.Policy, seconds(x.TTFT.Mean), seconds(x.TTFT.P50),
			seconds(x.TTFT.P95), seconds(x.TTFT.P99), 100*x.Hits, x.Throughput, milliseconds(x.ITL.P50), milliseconds(x.ITL.P95), milliseconds(x.ITL.P99),
			milliseconds(x.TPOT.P95), x.Imbalance, 100*x.Busy, 100*ratio(float64(x.Expected.Enough), float64(x.Requests)))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	var b strings.Builder
	for _, x := range r.Results {
		if x.Held > 0 {
			fmt.Fprintf(&b, "%s: %s requests waited at the router, %v in the mean.\n", x.Policy, trace.Grouped(x.Held), x.HeldFor.Round(time.Millisecond))
		}
	}
	if r.Config.TierTokens > 0 {
		for _, x := range r.Results {
			fmt.Fprintf(&b, "%s: %.1f %% of prompt tokens came from host memory, %.1f %% over the network before.\n",
				x.Policy, 100*ratio(float64(x.HostTokens), float64(x.PromptTokens)), 100*ratio(float64(x.PulledTokens), float64(x.PromptTokens)))
		}
	}
	for _, line := range r.Warnings {
		b.WriteString("Warning: " + line + ".\n")
	}
	if best := r.Best(); best != nil && len(r.Results) > 1 {
		fmt.Fprintf(&b, "The best of them in hindsight: %s by mean TTFT, %s by p99.\n", best.Policy, r.bestP99().Policy)
	}
	if r.Capacity != nil {
		b.WriteString("\n")
		if err := r.Capacity.Table(&b, r.Config.Workers); err != nil {
			return err
		}
	}
	if len(r.Advice) > 0 {
		b.WriteString("\nRecommendation\n")
	}
	for _, line := range r.Advice {
		b.WriteString("- " + line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// head describes the traffic and its bounds.
func (r *Report) head() string {
	var b strings.Builder
	t := &r.Trace
	if u := r.Users; u != nil {
		fmt.Fprintf(&b, "%s: %s users", t.Name, trace.Grouped(u.N))
		if u.Open {
			b.WriteString(" at the recorded pace")
		}
		fmt.Fprintf(&b, ", measured for %v after %v, pauses of at most %v", u.For, u.Warmup, u.MaxThink)
	} else {
		fmt.Fprintf(&b, "%s: %s requests in %v", t.Name, trace.Grouped(t.Requests), t.Span.Round(time.Second))
	}
	fmt.Fprintf(&b, ", mean input %.0f and output %.0f tokens; no router can find more than %.1f %% of them in a cache", t.Input, t.Output, 100*t.Bound)
	return b.String()
}

// describe returns the configuration in one line.
func (c *Config) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d workers of %s cached tokens", c.Workers, trace.Grouped(c.CacheTokens))
	if c.HostTokens > 0 {
		fmt.Fprintf(&b, " and %s in host memory", trace.Grouped(c.HostTokens))
	}
	if c.TierTokens > 0 {
		fmt.Fprintf(&b, ", nodes of %d with a KV tier of %s and %s tokens/s between them", c.NodeWorkers, trace.Grouped(c.TierTokens), trace.Grouped(int(c.LinkTokensPerSecond)))
	}
	fmt.Fprintf(&b, ", %s prefill tokens/s", trace.Grouped(int(c.Service.PrefillTokensPerSecond)))
	if len(c.Speeds) > 1 || c.Speeds[0] != 1 {
		fmt.Fprintf(&b, " times %v", c.Speeds)
	}
	fmt.Fprintf(&b, "; %d router", c.Routers)
	if c.Routers > 1 {
		switch c.Share {
		case ShareGossip:
			fmt.Fprintf(&b, "s that tell each other each dispatch, %v late", c.Hop)
		default:
			fmt.Fprintf(&b, "s that tell each other nothing and hear of workers' load every %v", c.Poll)
		}
		if c.both {
			fmt.Fprintf(&b, `; in "kv, shared" each dispatch, %v late`, c.Hop)
		}
	}
	fmt.Fprintf(&b, ", events %v late", c.EventDelay)
	if c.Rate != 1 {
		fmt.Fprintf(&b, "; arrivals at %g times their rate", c.Rate)
	}
	if len(c.Queues) > 0 {
		fmt.Fprintf(&b, `; with "queue" the router holds requests back while all workers are full`)
	}
	if len(c.Ablate) > 0 {
		fmt.Fprintf(&b, "; without %s", strings.Join(c.Ablate, ", "))
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
