package main

import "github.com/spf13/cobra"

// newBenchCommand returns `warmpath bench`: measurements for operators.
func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure: replay a trace against a cluster, simulate routing policies, compare both, measure NIXL transfers",
	}
	c.AddCommand(newBenchReplayCommand(), newBenchPoliciesCommand(), newBenchForecastCommand(), newBenchNIXLCommand())
	return c
}
