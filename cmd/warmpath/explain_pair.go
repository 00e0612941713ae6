package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// explainedState is a rank's state, and its role where that is a part only.
func explainedState(r *admin.ExplainedRank) string {
	if r.Role == "" || r.Role == worker.RoleAggregated.String() {
		return r.State
	}
	return r.State + " " + r.Role
}

// writeExplainedPair prints the decode ranks, the pair's own first and the rest by cost.
func writeExplainedPair(out io.Writer, p *admin.ExplainedPair) error {
	if p == nil {
		return nil
	}
	fmt.Fprintf(out, "\nbest pair: %s with %s, TTFT %.4f s; transfers are from the former\n", p.Prefill, p.Decode, p.TTFT)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\trank\tstate\theld\tin flight\tmax\tused\treserved\tpool\ttransfer s\troom s\tstep s\tscore\t")
	decodes := slices.Clone(p.Decodes)
	slices.SortStableFunc(decodes, func(a, b admin.ExplainedDecode) int { return cmp.Compare(a.Cost.Total, b.Cost.Total) })
	if i := slices.IndexFunc(decodes, func(d admin.ExplainedDecode) bool { return d.Winner }); i > 0 {
		// A tie.
		decodes[0], decodes[i] = decodes[i], decodes[0]
	}
	for i := range decodes {
		d := &decodes[i]
		mark := ""
		if d.Winner {
			mark = "->"
		}
		state := d.State
		if d.Broken {
			state += ", broken link"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.4f\t%.4f\t%.4f\t%.4g\t\n", mark, d.ID, state, d.Held,
			d.Load.InFlight, d.Load.MaxRunning, d.Load.UsedTokens, d.Load.ReservedTokens, d.Load.PoolTokens,
			d.Cost.Transfer, d.Cost.Room, d.Cost.Step, d.Cost.Total)
	}
	return t.Flush()
}
