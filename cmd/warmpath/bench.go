package main

import "github.com/spf13/cobra"

// newBenchCommand returns `warmpath bench`: measurements that a user can repeat.
func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure: a trace replayed to a cluster, the block index, the cost of the proxy, policies simulated, NIXL",
	}
	c.AddCommand(newBenchReplayCommand(), newBenchIndexCommand(), newBenchProxyCommand(), newBenchPoliciesCommand(), newBenchArticlesCommand(),
		newBenchReplicasCommand(), newBenchNIXLCommand())
	return c
}
