package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newBenchCommand returns `warmpath bench`: measurements for operators.
func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Replay traces, simulate routing policies, measure NIXL transfers",
	}
	c.AddCommand(newBenchReplayCommand(), newBenchPoliciesCommand(), newBenchNIXLCommand())
	return c
}

// writeJSON writes a result to a file; "" writes none.
func writeJSON(file string, result any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the results: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot keep the results: %w", err)
	}
	return nil
}
