package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
)

// writeNIXL prints nixlbench's columns, and each way's share of process_vm_readv's speed.
func writeNIXL(w io.Writer, r *nixlResult) error {
	fmt.Fprintf(w, "library  %s\npath     %s\n", r.Library, pathText[r.Path])
	if !r.Loopback {
		fmt.Fprintf(w, "devices  UCX_NET_DEVICES=%s\n", r.Facts.NetDevices)
	}
	fmt.Fprintf(w, "load     %s\n\n", strings.TrimSpace(r.Load))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "way\tblock size\tbatch\trounds\tof readv %\tGB/s\tmedian GB/s\tbest GB/s\t"+
		"avg lat µs\tp99 lat µs\tavg prep µs\tp99 prep µs\tavg post µs\tp99 post µs\tavg tx µs\tp99 tx µs\t")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Way, bytesText(row.Size), row.Batch, row.Count/max(row.Batch, 1),
			100*row.Share, row.Rate/1e9, row.Median/1e9, row.Best/1e9, micros(row.Latency.Mean), micros(row.Latency.P99), micros(row.Prepare.Mean), micros(row.Prepare.P99),
			micros(row.Post.Mean), micros(row.Post.P99), micros(row.Transfer.Mean), micros(row.Transfer.P99))
	}
	return t.Flush()
}

// pathText names a path for people.
var pathText = map[link.Path]string{
	link.RDMA:    "RDMA",
	link.Shared:  "shared memory",
	link.CMA:     "CMA: the reading process copies (process_vm_readv)",
	link.TCP:     "TCP: both processes copy through a socket; CMA needs one user and one PID namespace, and a UCX_TLS that leaves it in",
	link.Unknown: "unknown",
}

// micros formats a time in µs; zero is empty.
func micros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(d)/1e3)
}

// bytesText formats a size with the largest unit that divides it.
func bytesText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
