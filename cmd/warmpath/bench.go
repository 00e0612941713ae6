package main

import "github.com/spf13/cobra"

// newBenchCommand returns `warmpath bench`: measurements for operators.
func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Replay traces, simulate routing policies, compare the two, measure NIXL transfers",
	}
	c.AddCommand(newBenchReplayCommand(), newBenchPoliciesCommand(), newBenchForecastCommand(), newBenchNIXLCommand())
	return c
}
