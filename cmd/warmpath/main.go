// Command warmpath is the data plane of an SGLang cluster: a router that knows the
// blocks in each worker's prefix cache.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/admin/top"
)

// Set by the Makefile; see [build].
var version, commit, date string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains; the default handler, restored here, makes the second one kill.
	context.AfterFunc(ctx, stop)
	root := newRoot()
	args, err := adopt(os.Args[1:], os.Stderr)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	if err != nil {
		if !logged(err) {
			fmt.Fprintln(top.Plain(os.Stderr), "warmpath: "+err.Error())
		}
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "The data plane of SGLang clusters: each request goes to the worker with its prefix in cache",
		Long: `Warmpath routes requests to SGLang workers by the blocks that each of them holds in its KV
cache. It learns that, exactly and live, from the KV events that the workers publish.

"warmpath up" runs a whole cluster, simulated, on this machine and needs nothing else.
"warmpath serve" is the router, in front of workers that run already.`,
		Version:       thisBuild().version,
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if all := c.Flags().Lookup(helpAllFlag); all != nil && all.Changed {
				return pflag.ErrHelp // then cobra prints the help
			}
			return errors.Join(checkSecrets(c, args), checkNumbers(c))
		},
	}
	root.SetVersionTemplate(thisBuild().String() + "\n")
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(wrongFlag)
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	group("Run", newUpCommand(), newServeCommand(), newNodeCommand(), newSimCommand())
	group("Inspect", newTopCommand(), newDoctorCommand(), newExplainCommand(), newEventsCommand(), newConfigCommand(), newHealthCommand())
	group("Workers and nodes", append(newMarkCommands(), newNodesCommand(), newWorkersCommand())...)
	group("Measure", newBenchCommand(), newLintCommand())
	group("Set up", newKeyCommand(), newTokenCommand(), newMigrateCommand(), newVersionCommand(), newManCommand())
	for _, c := range root.Commands() {
		addHelpAll(c)
	}
	completeValues(root)
	return root
}
