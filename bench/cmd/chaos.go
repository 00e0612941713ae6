package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/chaos"
)

func newChaosCommand() *cobra.Command {
	cfg := chaos.Config{}
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Send mixed traffic through random faults of everything, and check that nothing is lost",
		Long: `Chaos runs two routers, their NATS, a sidecar and seven simulated workers as processes, sends mixed
traffic, and kills, stops, cuts and reconfigures whatever there is by a schedule that the seed gives. In
calms between the storms it checks that each request was answered once or failed visibly beside a fault
that explains it, that no load is left, and that memory, goroutines and the hit rate are back. A violation
ends it with the seed, the last faults, the folder of the logs, and status 1. Ctrl-C prints the table.`,
		Example: "  make chaos DURATION=10m SEED=7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Progress = cmd.OutOrStdout()
			return chaos.Run(cmd.Context(), cfg)
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Program, "warmpath", "bin/warmpath-race", "program of routers and workers, built with -race")
	f.DurationVar(&cfg.Duration, "for", time.Hour, "how long storms last together")
	f.DurationVar(&cfg.Storm, "storm", time.Minute, "how long one storm lasts")
	f.DurationVar(&cfg.Every, "every", time.Second/2, "mean time between two faults")
	f.IntVar(&cfg.Clients, "clients", 24, "clients, each with one request at a time")
	f.Uint64Var(&cfg.Seed, "seed", 1, "of the schedule and the traffic")
	f.StringVar(&cfg.Dir, "dir", "", "existing folder for logs and journals (default: a new temporary one)")
	return c
}
