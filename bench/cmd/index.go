package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/index"
)

// indexOptions are the flags of bin/bench index.
type indexOptions struct {
	workload string
	generate string
	write    string
	jsonFile string
	workers  int
	blocks   int
	idBlocks int
	requests int
	random   bool
	cfg      index.Config
}

func newIndexCommand() *cobra.Command {
	o := &indexOptions{}
	c := &cobra.Command{
		Use:   "index",
		Short: "Measure the block index on a workload, and count its wrong answers",
		Long: `Index plays what workers publish on the block index and measures: blocks applied a second
by one writer and by two, look-ups alone and beside a writer, heap bytes an entry, memory
given back after clears, and the time from token ids to the workers that hold a prompt.
Every answer is compared with the truth; a wrong one makes the command fail.

A workload is a file (--workload, format KVWL0001) or is made (--generate):
  conversation  sessions behind one common block, routed to the least cost
  shared        40 long system prompts, routed by chance
  holes         shared, with blocks lost from the middle and stored again, and clears
  FILE.jsonl    a trace in Mooncake's format, routed to the least cost, or by chance with
                --random-routing`,
		Example: `  bin/bench index --generate conversation --workers 64
  bin/bench index --generate conversation_trace.jsonl --workers 256 --write conv_w256.bin
  bin/bench index --workload conv_w256.bin --rounds 5 --json out.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringVar(&o.workload, "workload", "", "workload file to play")
	f.StringVar(&o.generate, "generate", "", "workload to make: conversation, shared, holes or a trace file")
	f.StringVar(&o.write, "write", "", "keep the workload that was made in this file, and measure nothing")
	f.IntVar(&o.workers, "workers", 64, "workers of the workload that is made")
	f.IntVar(&o.blocks, "blocks", 16384, "blocks of each worker's cache")
	f.IntVar(&o.idBlocks, "id-blocks", 32, "blocks of each 512 tokens of the trace")
	f.IntVar(&o.requests, "requests", 0, "requests of the trace (default: all of a file; 8000 conversation, 6000 others)")
	f.BoolVar(&o.random, "random-routing", false, "route a trace file by chance")
	f.IntVar(&o.cfg.Rounds, "rounds", 3, "measure all so many times and print medians")
	f.DurationVar(&o.cfg.Time, "time", time.Second, "of each loop of look-ups in a round")
	f.StringVar(&o.jsonFile, "json", "", "also write the result to this file as JSON")
	c.MarkFlagsMutuallyExclusive("workload", "generate")
	c.MarkFlagsMutuallyExclusive("workload", "write")
	c.MarkFlagsOneRequired("workload", "generate")
	return c
}

func (o *indexOptions) run(cmd *cobra.Command) error {
	if o.cfg.Rounds < 1 || o.cfg.Time <= 0 {
		return fmt.Errorf("cannot measure in %d rounds of %v: give at least one, and a time", o.cfg.Rounds, o.cfg.Time)
	}
	o.cfg.Progress = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
	o.cfg.Name = filepath.Base(o.workload + o.generate)
	o.cfg.Progress("reading or making the workload")
	w, err := o.open()
	if err != nil {
		return err
	}
	if o.write != "" {
		return w.WriteFile(o.write)
	}
	// Also where answers were wrong.
	r, err := index.Measure(cmd.Context(), w, o.cfg)
	if r == nil {
		return err
	}
	return errors.Join(err, r.Table(cmd.OutOrStdout()), writeJSON(o.jsonFile, r))
}

// some is the number of requests to make.
func (o *indexOptions) some(or int) int {
	if o.requests > 0 {
		return o.requests
	}
	return or
}

// open reads or makes the workload.
func (o *indexOptions) open() (*index.Workload, error) {
	if o.workload != "" {
		return index.ReadFile(o.workload)
	}
	opt := index.Options{Workers: o.workers, Blocks: o.blocks, IDBlocks: o.idBlocks, Random: o.random}
	switch o.generate {
	case "conversation":
		return index.Generate(index.Conversation(o.some(8000)), opt)
	case "shared":
		opt.Random = true
		return index.Generate(index.Shared(o.some(6000)), opt)
	case "holes":
		opt.Random, opt.Holes = true, true
		return index.Generate(index.Shared(o.some(6000)), opt)
	}
	f, err := os.Open(o.generate)
	if err != nil {
		return nil, fmt.Errorf("cannot open the trace: %w: give conversation, shared, holes or a file", err)
	}
	defer f.Close()
	trace, err := index.ReadTrace(f, o.requests)
	if err != nil {
		return nil, err
	}
	return index.Generate(trace, opt)
}
