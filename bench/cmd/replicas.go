package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/replica"
)

func newReplicasCommand() *cobra.Command {
	var routers []int
	var rates []float64
	var file string
	cfg := replica.Config{}
	c := &cobra.Command{
		Use:   "replicas",
		Short: "Measure what it costs that several routers know each other's requests: messages, bytes and CPU",
		Long: `Replicas lets routers in this process choose for made requests, over a NATS in this process, and counts
what they tell each other and the CPU that it takes: with sharing, less what the same choices take alone.
Requests are not sent anywhere. CPU is in seconds a second, so 0.5 is half a core.`,
		Example: "  bin/bench replicas --routers 2,4,8,16 --workers 1000 --rate 100",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*replica.Result
			for _, cfg.Rate = range rates {
				for _, cfg.Routers = range routers {
					r, err := replica.Run(cmd.Context(), cfg)
					if err != nil {
						return err
					}
					all = append(all, r)
					fmt.Fprintf(cmd.ErrOrStderr(), "%d routers, %v requests/s each: done\n", r.Routers, r.Rate)
				}
			}
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(out, "routers\tworkers\trequests/s each\tall\tmessages/s\theard/s each\tKB/s\tCPU\talone\tsharing, a router\tµs a request\tmachine's load\t")
			for _, r := range all {
				fmt.Fprintf(out, "%d\t%d\t%g\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.3f\t%.0f\t%.1f\t\n", r.Routers, r.Workers, r.Rate, r.Requests, r.Messages,
					r.Heard/float64(r.Routers), r.Bytes/1e3, r.CPU, r.Alone, r.Sharing(), 1e6*(r.CPU-r.Alone)/max(r.Requests, 1), r.Load)
			}
			if err := out.Flush(); err != nil {
				return fmt.Errorf("cannot write the table: %w", err)
			}
			return writeJSON(file, all)
		},
	}
	f := c.Flags()
	f.IntSliceVar(&routers, "routers", []int{2, 4, 8, 16}, "`list` of how many routers, each in turn")
	f.Float64SliceVar(&rates, "rate", []float64{100}, "requests a second and router, each of these in turn")
	f.IntVar(&cfg.Workers, "workers", 1000, "workers that all of them know")
	f.DurationVar(&cfg.For, "for", 5*time.Second, "how long each setting is measured, with sharing and without")
	f.StringVar(&file, "json", "", "also write the results to this file as JSON")
	return c
}
