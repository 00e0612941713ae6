package policies

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// WriteCells writes cells as a table, those first in which kv is worst, and below it the same
// summed up by kind.
func WriteCells(w io.Writer, cells []*Cell) error {
	cells = slices.Clone(cells)
	slices.SortStableFunc(cells, func(a, b *Cell) int { return cmp.Compare(b.Worst(), a.Worst()) })
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "scene\tload\tof the best's\tpool\tkv mean\t/ best\tof\tkv p99\t/ best\tof\thits\tbest's\tITL p95\tTPOT p95\t/ best\t")
	for _, c := range cells {
		kv, mean, p99 := resultOf(c.Results, "kv"), resultOf(c.Results, c.BestMean), resultOf(c.Results, c.BestP99)
		if kv == nil || mean == nil || p99 == nil {
			continue
		}
		fmt.Fprintf(out, "%s\t%.3g\t%.2f\t%d\t%.3f s\t%.2f\t%s\t%.2f s\t%.2f\t%s\t%.1f\t%.1f\t%.1f ms\t%.1f ms\t%.2f\t\n", c.Scene, c.Load, c.Share, c.Pool,
			kv.TTFT.Mean.Seconds(), c.Mean, c.BestMean, kv.TTFT.P99.Seconds(), c.P99, c.BestP99, 100*kv.Hits, 100*mean.Hits,
			float64(kv.ITL.P95)/1e6, float64(kv.TPOT.P95)/1e6, ratio(float64(kv.TPOT.P95), float64(mean.TPOT.P95)))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, "kind\tcells\tmean TTFT / best: geometric mean\tworst\tp99 / best: geometric mean\tworst\tcells within 1.05\twithin 1.2\t")
	for _, name := range append(kindsOf(cells), "") {
		sumUp(out, name, cells)
	}
	return out.Flush()
}

// kindsOf lists the kinds by the alphabet.
func kindsOf(cells []*Cell) (names []string) {
	for _, c := range cells {
		if !slices.Contains(names, c.Kind) {
			names = append(names, c.Kind)
		}
	}
	slices.Sort(names)
	return names
}

// sumUp writes the row of one kind, or of all for "".
func sumUp(w io.Writer, kind string, cells []*Cell) {
	n, means, p99s, worstMean, worstP99, near, fair := 0, 0.0, 0.0, 0.0, 0.0, 0, 0
	for _, c := range cells {
		if (kind != "" && c.Kind != kind) || c.Mean == 0 || c.P99 == 0 {
			continue
		}
		n, means, p99s = n+1, means+math.Log(c.Mean), p99s+math.Log(c.P99)
		worstMean, worstP99 = max(worstMean, c.Mean), max(worstP99, c.P99)
		if c.Worst() <= 1.05 {
			near++
		}
		if c.Worst() <= 1.2 {
			fair++
		}
	}
	if n > 0 {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.2f\t%.3f\t%.2f\t%d\t%d\t\n", cmp.Or(kind, "all"), n,
			math.Exp(means/float64(n)), worstMean, math.Exp(p99s/float64(n)), worstP99, near, fair)
	}
}
