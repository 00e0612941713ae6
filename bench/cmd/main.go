// Command cmd holds the benchmarks for developers of Warmpath: the cost of the router, the block
// index, every routing policy on every kind of traffic, and faults of everything.
// Benchmarks for operators are subcommands of `warmpath bench`.
//
//	go build -o bin/ ./cmd/warmpath && go run ./bench/cmd --help
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the measurement, the second one the process.
	context.AfterFunc(ctx, stop)
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Benchmarks for developers of Warmpath",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newProxyCommand(), newIndexCommand(), newCellsCommand(), newChaosCommand())
	return root
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
		return fmt.Errorf("cannot write the results: %w", err)
	}
	return nil
}
