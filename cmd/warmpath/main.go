// Command warmpath is the data plane of an SGLang cluster: a router that knows
// what each worker has cached.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the Makefile.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains; giving the handler back makes the second one kill.
	context.AfterFunc(ctx, stop)
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "warmpath: "+err.Error())
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "The data plane of SGLang clusters: each request goes to the worker that is already warm for it",
		Long: `Warmpath routes requests to SGLang workers by what each of them holds in its KV
cache. It learns that, exactly and live, from the KV events that the workers publish.

  warmpath up       a whole cluster on this machine, simulated: nothing else is needed
  warmpath serve    the router, in front of workers that run already
  warmpath node     the sidecar of a GPU machine: its workers, its GPUs and how they are`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUpCommand(), newServeCommand(), newConfigCommand(), newNodeCommand(), newSimCommand(), newBenchCommand(), newEventsCommand(), newDoctorCommand(), newLintCommand(), newExplainCommand(), newHealthCommand(), newNodesCommand(), newWorkersCommand())
	root.AddCommand(newMarkCommands()...)
	return root
}
