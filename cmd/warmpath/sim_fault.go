package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/sim"
)

// newSimFaultCommand returns `warmpath sim fault`.
func newSimFaultCommand() *cobra.Command {
	var fault sim.Fault
	var kinds strings.Builder
	for _, k := range sim.FaultKinds() {
		fmt.Fprintf(&kinds, "\n  %-16s  %s", k.Name, k.Does)
	}
	c := &cobra.Command{
		Use:   "fault KIND URL",
		Short: "Make a simulated worker fail: crash, hang, slow, errors, lost events",
		Long: `Fault makes one simulated worker fail as an engine would, for its clients and its router.
Kinds:
` + kinds.String(),
		Example: `  warmpath sim fault crash http://127.0.0.1:30000 --seconds 5
  warmpath sim fault hang http://127.0.0.1:30000
  warmpath sim fault none http://127.0.0.1:30000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want a kind of fault and a worker's URL, as in warmpath sim fault crash http://127.0.0.1:30000 (warmpath sim fault --help lists the kinds)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			fault.Kind = args[0]
			body, err := json.Marshal(fault)
			if err != nil {
				return err
			}
			status, answer, err := askHTTP(args[1], "/sim/fault", "", body, clusterPatience)
			switch {
			case err != nil:
				return fmt.Errorf("cannot reach the worker: %w", err)
			case status != 200:
				return fmt.Errorf("%s answers %d: %s", args[1], status, messageOf(answer))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[1], fault.Kind)
			return nil
		},
	}
	f := c.Flags()
	f.Float64Var(&fault.Seconds, "seconds", 0, "duration of the fault (default until it is ended)")
	f.IntVar(&fault.Count, "count", 1, "requests, batches or transfers")
	f.Float64Var(&fault.Factor, "factor", 0, "factor of slowness and of false reports (default 4)")
	f.IntVar(&fault.Status, "status", 0, "HTTP status of errors (default 500)")
	f.IntVar(&fault.Every, "every", 0, "only one of this many requests fails")
	f.BoolVar(&fault.Lost, "lost", false, "dropped events cannot be replayed either")
	return c
}
