package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/policies"
)

// cellsOptions are the flags of bench cells.
type cellsOptions struct {
	sessions, trace string
	only            string
	quick, list     bool
	jsonFile        string
	names           []string
	cores           int
	grid            policies.Grid
	material        policies.Material
}

func newCellsCommand() *cobra.Command {
	o := &cellsOptions{}
	c := &cobra.Command{
		Use:   "cells",
		Short: "Simulate every policy on every kind of traffic, pool and load: kv beside the best of each cell, the worst first",
		Long: `Cells simulates every policy in many scenes: agents' sessions in closed and open loop, a chat
trace, made families (tenants, documents, floods, chats, bursts, tool loops, prompts asked
once, a mixture that changes every ten minutes), unequal speeds, and several routers, with
pools from a fifth to all of the working set, with and without a host tier, whole workers
and pairs. Each scene is played at shares of the load at which the best policy collapses
(its mean TTFT is 2 s and twice that of a light load). The table has kv's mean and p99 TTFT
as a ratio to the lowest of all other policies but the all-knowing one, worst cell first.

The seed draws the sizes of all made families, one half of the recorded sessions and how
they are played: a policy that was tuned on some seeds is to be judged on others.`,
		Example: `  go run ./bench/cmd cells --quick --sessions sessions.jsonl
  go run ./bench/cmd cells --sessions sessions.jsonl --trace conversation_trace.jsonl --json cells.json
  go run ./bench/cmd cells --only '^agents, closed' --shares 0.85,1 --policy kv,lmetric,sticky-sessions --sessions sessions.jsonl
  go run ./bench/cmd cells --seed 77 --runs 3 --only 'tenants|mixture'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringVar(&o.sessions, "sessions", "", "file of recorded agent sessions; without it made ones only")
	f.StringVar(&o.trace, "trace", "", "trace of a chat service in Mooncake's format; without it none")
	f.StringVar(&o.only, "only", "", "`regular expression` of the names of scenes; see --list")
	f.BoolVar(&o.quick, "quick", false, "some scenes, shares 0.7 and 1, few policies: under three minutes of one core")
	f.BoolVar(&o.list, "list", false, "list the scenes and end")
	f.StringVar(&o.jsonFile, "json", "", "also write the cells to this file, one JSON object a line, each when its scene is done")
	f.StringSliceVar(&o.names, "policy", []string{"all"}, "`list` of policies, or \"all\"")
	f.Float64SliceVar(&o.grid.Shares, "shares", []float64{0.3, 0.5, 0.7, 0.85, 1}, "loads, as shares of the one at which the best policy collapses")
	f.Uint64Var(&o.grid.Seed, "seed", 1, "draws all that is made, and how sessions are played")
	f.IntVar(&o.grid.Runs, "runs", 1, "of each cell, with a seed each")
	f.IntVar(&o.cores, "cores", 1, "scenes that run at once")
	return c
}

// quickPolicies were the best of some cell.
var quickPolicies = []string{"kv", "lmetric", "staleness", "approx", "dualmap", "dynamo", "round-robin", "least-load", "sticky-sessions", policies.Greedy}

// scenes lists the chosen scenes.
func (o *cellsOptions) scenes() ([]*policies.Scene, error) {
	o.material.Seed = o.grid.Seed
	if err := o.material.Read(o.sessions, o.trace); err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("cannot read --only: %w", err)
	}
	all := slices.DeleteFunc(o.material.Scenes(), func(s *policies.Scene) bool {
		return !pattern.MatchString(s.Name) || (o.quick && !s.Common())
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("no scene's name matches %q: see --list", o.only)
	}
	return all, nil
}

func (o *cellsOptions) run(cmd *cobra.Command) error {
	scenes, err := o.scenes()
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range scenes {
			fmt.Fprintln(cmd.OutOrStdout(), s.Name)
		}
		return nil
	}
	switch all := slices.Equal(o.names, []string{"all"}); {
	case all && o.quick:
		o.grid.Policies = quickPolicies
	case all:
		o.grid.Policies = policies.Names()
	default:
		o.grid.Policies = o.names
	}
	for _, name := range o.grid.Policies {
		if !slices.Contains(policies.Names(), name) {
			return fmt.Errorf("cannot simulate policy %q: want some of %v", name, policies.Names())
		}
	}
	if !slices.Contains(o.grid.Policies, "kv") {
		return errors.New("cannot compare kv without it: --policy lacks it")
	}
	if o.quick && !cmd.Flags().Changed("shares") {
		o.grid.Shares = []float64{0.7, 1}
	}
	if o.cores < 1 {
		return fmt.Errorf("cannot run on %d cores", o.cores)
	}
	runtime.GOMAXPROCS(o.cores)
	file := io.Discard
	if o.jsonFile != "" {
		f, err := os.Create(o.jsonFile)
		if err != nil {
			return fmt.Errorf("cannot keep the cells: %w", err)
		}
		defer f.Close()
		file = f
	}
	cells, err := o.play(cmd.Context(), scenes, file, cmd.ErrOrStderr())
	return errors.Join(err, policies.WriteCells(cmd.OutOrStdout(), cells))
}

// play runs the scenes, and writes the results of each as it ends.
func (o *cellsOptions) play(ctx context.Context, scenes []*policies.Scene, file, progress io.Writer) ([]*policies.Cell, error) {
	var (
		mu   sync.Mutex
		done atomic.Int64
		some errgroup.Group
	)
	began := time.Now()
	o.grid.Progress = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(progress, "%d of %d scenes, %v: %s\n", done.Load(), len(scenes), time.Since(began).Round(time.Second), text)
	}
	some.SetLimit(o.cores)
	byScene := make([][]*policies.Cell, len(scenes))
	for i, s := range scenes {
		some.Go(func() error {
			got, err := o.grid.Scene(ctx, s)
			done.Add(1)
			mu.Lock()
			defer mu.Unlock()
			byScene[i] = got
			for _, c := range got {
				if err := json.NewEncoder(file).Encode(c); err != nil {
					return fmt.Errorf("cannot keep the cells: %w", err)
				}
			}
			return err
		})
	}
	err := some.Wait()
	return slices.Concat(byScene...), err
}
