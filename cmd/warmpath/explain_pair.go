package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// explainedState is a rank's state, and its role where that is a part only.
func explainedState(r *admin.ExplainedRank) string {
	if r.Role == "" || r.Role == worker.RoleRegular.String() {
		return r.State
	}
	return r.State + " " + r.Role
}

// writeExplainedPair prints the decode ranks, the pair's own first and the rest by cost.
func writeExplainedPair(out io.Writer, p *admin.ExplainedPair) {
	if p == nil {
		return
	}
	fmt.Fprintf(out, "\nbest pair: %s with %s,\nTTFT %.4f s; transfers are from the former\n", p.Prefill, p.Decode, p.TTFT)
	decodes := slices.Clone(p.Decodes)
	slices.SortStableFunc(decodes, func(a, b admin.ExplainedDecode) int { return cmp.Compare(a.Cost.Total, b.Cost.Total) })
	if i := slices.IndexFunc(decodes, func(d admin.ExplainedDecode) bool { return d.Winner }); i > 0 {
		// A tie.
		decodes[0], decodes[i] = decodes[i], decodes[0]
	}
	for i := range decodes {
		d := &decodes[i]
		mark := "  "
		if d.Winner {
			mark = "->"
		}
		state := d.State
		if d.Broken {
			state += ", broken link"
		}
		fmt.Fprintf(out, "%s %s  %s\n", mark, d.ID, state)
		writeWrapped(out, []string{
			fmt.Sprintf("held %d", d.Held), fmt.Sprintf("%d of %d in flight", d.Load.InFlight, d.Load.MaxRunning),
			fmt.Sprintf("pool %d used, %d reserved of %d", d.Load.UsedTokens, d.Load.ReservedTokens, d.Load.PoolTokens),
		})
		writeWrapped(out, []string{
			fmt.Sprintf("transfer %.4f", d.Cost.Transfer), fmt.Sprintf("room %.4f", d.Cost.Room), fmt.Sprintf("step %.4f", d.Cost.Step), fmt.Sprintf("score %.4g", d.Cost.Total),
		})
	}
}
