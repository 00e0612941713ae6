package main

import "github.com/spf13/cobra"

// newBenchCommand returns `warmpath bench`: measurements that a user can repeat.
func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure: replay a trace against a cluster",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(newBenchReplayCommand())
	return c
}
