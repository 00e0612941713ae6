package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// writeGPUs prints faults of the ranks' GPUs, and the faults that the choice had to ignore.
func writeGPUs(out io.Writer, e *admin.Explained, ranks []admin.ExplainedRank) {
	if e.Overruled != "" {
		fmt.Fprintln(out, e.Overruled)
	}
	for i := range ranks {
		if line := gpuLine(&ranks[i]); line != "" {
			fmt.Fprintf(out, "%s: %s\n", ranks[i].ID, line)
		}
		if o := ranks[i].Overlap; o != nil && o.Tier+o.Remote > 0 {
			fmt.Fprintf(out, "%s: could fetch %d tokens from the KV tier of its node, and %d behind them from a peer's\n", ranks[i].ID, o.Tier, o.Remote)
		}
	}
}

// gpuLine describes a rank's GPU faults; "" is none known.
func gpuLine(r *admin.ExplainedRank) string {
	g := r.GPUs
	if g == nil || len(g.Reasons) == 0 && (r.Weight == 0 || r.Weight == 1) && (g.State == worker.GPUHealthy.String() || g.State == worker.GPUUnknown.String()) {
		return ""
	}
	line := "GPUs are " + g.State
	if r.Weight != 0 && r.Weight != 1 { // of a rank that is no candidate, it does not count
		line += fmt.Sprintf(", %.0f %% of the speed is left", 100*r.Weight)
	}
	if g.NoTP {
		line += ", not to be used together"
	}
	if g.Doubted {
		line += ", which is not believed: most workers that answer died by the facts at one instant, or it is the last one"
	}
	if len(g.Reasons) > 0 {
		line += ": " + strings.Join(g.Reasons, "; ")
	}
	return line + fmt.Sprintf(" (%.0f s ago)", g.Age)
}
