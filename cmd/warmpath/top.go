package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/dataplane/admin/top"
)

// The router makes a row of its history every five seconds, and a terminal shows no more than a few
// changes a second.
const (
	shortestInterval = 200 * time.Millisecond
	longestInterval  = time.Hour
)

func newTopCommand() *cobra.Command {
	var router routerOptions
	every := 2 * time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a router in the terminal: faults, latency, hit rate, workers",
		Long: `Top shows what needs attention now, the traffic of the last quarter of an hour and all workers,
and one worker with Enter. Its last line lists the keys. When the router goes away, top says so and
keeps asking.

Where the output is no terminal, or a dumb one, top prints all of it once as plain text and exits.
NO_COLOR=1 turns colours off.`,
		Example: "  warmpath top\n  warmpath top --router http://router:8001 --interval 5s\n  warmpath top | grep dead",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < shortestInterval || every > longestInterval {
				return fmt.Errorf("cannot use --interval %s: want 200ms to 1h", every)
			}
			cfg := top.Config{Router: router.base(), Every: every, Ask: router.reading}
			if !drawable(cmd.OutOrStdout()) {
				return top.Snapshot(cmd.Context(), cfg, cmd.OutOrStdout())
			}
			return top.Run(cmd.Context(), cfg)
		},
	}
	router.flags(c.Flags())
	c.Flags().DurationVar(&every, "interval", every, "time between two questions to the router, 200ms to 1h")
	return c
}

// drawable reports whether out is a terminal with a cursor that can be moved.
func drawable(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && !slices.Contains([]string{"", "dumb"}, os.Getenv("TERM"))
}

// reading asks a router for its state and its history.
func (o *routerOptions) reading(context.Context) (r top.Reading, err error) {
	r.At = time.Now()
	for _, part := range []struct {
		path string
		to   any
	}{{"/status", &r.Status}, {"/history", &r.History}} {
		body, err := o.ask(part.path, nil, clusterPatience)
		if err != nil {
			return r, err
		}
		if err := json.Unmarshal(body, part.to); err != nil {
			return r, fmt.Errorf("cannot read the answer of %s%s: %w", o.base(), part.path, err)
		}
	}
	return r, nil
}
