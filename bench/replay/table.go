package replay

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Table writes the results side by side, a column each.
func Table(w io.Writer, results []*Result) error {
	if len(results) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows(results) {
		fmt.Fprint(t, row.name, "\t")
		for _, r := range results {
			fmt.Fprint(t, row.cell(r), "\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	_, err := io.WriteString(w, footnote(results[0])+warning(results))
	return err
}

// tooLate is a delay of this machine's own that no quiet one shows: 15 ms were seen at 60
// requests a second on two cores, and 1 s, with a mean TTFT six times too long, while compilers
// ran beside the replay.
const tooLate = 100 * time.Millisecond

// warning says that the times are those of a machine that was too busy.
func warning(results []*Result) string {
	late := time.Duration(0)
	for _, r := range results {
		late = max(late, r.MaxLate)
	}
	if late < tooLate {
		return ""
	}
	return fmt.Sprintf("A request was sent %v late: this machine is too busy for these times to be trusted. Try a smaller time scale.\n",
		late.Round(time.Millisecond))
}

// footnote explains the times.
func footnote(r *Result) string {
	if r.Simulated && r.TimeScale != 1 {
		return fmt.Sprintf("Times are simulated: measured times x %g, so each real millisecond of this machine counts as %g ms.\n",
			r.TimeScale, r.TimeScale)
	}
	if r.TimeScale != 1 {
		return fmt.Sprintf("Times are as measured; requests arrived %g times as fast as in the trace.\n", r.TimeScale)
	}
	return "Times are as measured.\n"
}

type row struct {
	name string
	cell func(*Result) string
}

func rows(results []*Result) []row {
	all := []row{
		{"policy", func(r *Result) string { return cmp.Or(r.Policy, "-") }},
		{"requests", func(r *Result) string { return trace.Grouped(r.Requests) }},
		{"errors", func(r *Result) string { return trace.Grouped(r.Errors) }},
		{"prompt tokens", func(r *Result) string { return trace.Grouped(r.PromptTokens) }},
		{"hit tokens", func(r *Result) string { return trace.Grouped(r.HitTokens) }},
		{"hit rate", func(r *Result) string { return percent(r.HitTokens, r.PromptTokens) }},
		{"output tokens", func(r *Result) string { return trace.Grouped(r.OutputTokens) }},
		{"TTFT mean", func(r *Result) string { return seconds(r.TTFT.Mean) }},
		{"TTFT p50", func(r *Result) string { return seconds(r.TTFT.P50) }},
		{"TTFT p95", func(r *Result) string { return seconds(r.TTFT.P95) }},
		{"TTFT p99", func(r *Result) string { return seconds(r.TTFT.P99) }},
		{"ITL p50", func(r *Result) string { return milliseconds(r.ITL.P50) }},
		{"ITL p95", func(r *Result) string { return milliseconds(r.ITL.P95) }},
		{"ITL p99", func(r *Result) string { return milliseconds(r.ITL.P99) }},
		{"TPOT p95", func(r *Result) string { return milliseconds(r.TPOT.P95) }},
		{"latency mean", func(r *Result) string { return seconds(r.Latency.Mean) }},
		{"latency p50", func(r *Result) string { return seconds(r.Latency.P50) }},
		{"latency p99", func(r *Result) string { return seconds(r.Latency.P99) }},
	}
	for i := range widest(results) {
		all = append(all, row{fmt.Sprintf("worker %d by share", i+1), func(r *Result) string { return nthShare(r, i) }})
	}
	return append(all,
		row{"overlap exact", func(r *Result) string { return percent(r.Overlap.Exact, r.Overlap.Compared) }},
		row{"overlap >= 0.8", func(r *Result) string { return percent(r.Overlap.Enough, r.Overlap.Compared) }},
		row{"expected tokens", func(r *Result) string { return trace.Grouped(r.Overlap.Expected) }},
		row{"sent late, at most", func(r *Result) string { return r.MaxLate.Round(time.Millisecond).String() }},
		row{"wall time", func(r *Result) string { return r.Wall.Round(100 * time.Millisecond).String() }},
	)
}

// widest is the largest number of workers that a result saw.
func widest(results []*Result) int {
	n := 0
	for _, r := range results {
		n = max(n, len(r.Workers))
	}
	return n
}

// nthShare is the share of the worker with the n-th largest one: clusters of two policies have
// different addresses.
func nthShare(r *Result, n int) string {
	counts := slices.Sorted(maps.Values(r.Workers))
	slices.Reverse(counts)
	if n >= len(counts) {
		return "-"
	}
	return percent(counts[n], r.Requests-r.Errors)
}

func percent(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share(part, whole))
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
